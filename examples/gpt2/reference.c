/* The same network in plain float64 loops, written from the formulas without regard to speed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt2.h"
#include "random.h"

static const double kEps = 1e-5;

typedef struct {
  double *x, *norm1, *qkv, *probabilities, *attention, *middle, *norm2, *up, *gelu;
} layer_t;

struct reference {
  gpt2_config_t config;
  gpt2_kind_t kinds[GPT2_KINDS];
  size_t count;
  double *parameters, *gradients, *m, *v;
  layer_t* layers;
  double *last, *norm, *d_x, *d_row, *d_wide;
};

static double* doubles(size_t count) {
  double* values = calloc(count, sizeof(double));
  if (!values) {
    fprintf(stderr, "gpt2: out of memory: cannot allocate %zu doubles\n", count);
    exit(1);
  }
  return values;
}

reference_t* reference_create(const gpt2_config_t* config, const float* parameters) {
  reference_t* r = calloc(1, sizeof *r);
  layer_t* layers = calloc((size_t)config->layers, sizeof *layers);
  if (!r || !layers) {
    fprintf(stderr, "gpt2: out of memory\n");
    exit(1);
  }
  const size_t n = (size_t)(config->batch * config->context), h = (size_t)config->width;
  r->config = *config;
  r->count = gpt2_kinds(config, r->kinds);
  r->parameters = doubles(r->count);
  for (size_t i = 0; i < r->count; ++i) r->parameters[i] = parameters[i];
  r->gradients = doubles(r->count);
  r->m = doubles(r->count);
  r->v = doubles(r->count);
  r->layers = layers;
  for (int64_t i = 0; i < config->layers; ++i)
    layers[i] =
        (layer_t){doubles(n * h),     doubles(n * h),
                  doubles(n * 3 * h), doubles(n * (size_t)(config->heads * config->context)),
                  doubles(n * h),     doubles(n * h),
                  doubles(n * h),     doubles(n * 4 * h),
                  doubles(n * 4 * h)};
  r->last = doubles(n * h);
  r->norm = doubles(n * h);
  r->d_x = doubles(n * h);
  r->d_row = doubles(n * h);
  r->d_wide = doubles(n * 4 * h);
  return r;
}

void reference_destroy(reference_t* r) {
  if (!r) return;
  for (int64_t i = 0; i < r->config.layers; ++i) {
    layer_t* l = &r->layers[i];
    double* values[] = {l->x,      l->norm1, l->qkv, l->probabilities, l->attention,
                        l->middle, l->norm2, l->up,  l->gelu};
    for (size_t j = 0; j < sizeof values / sizeof *values; ++j) free(values[j]);
  }
  double* rest[] = {r->parameters, r->gradients, r->m,     r->v,     r->last,
                    r->norm,       r->d_x,       r->d_row, r->d_wide};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; ++i) free(rest[i]);
  free(r->layers);
  free(r);
}

static double* weight(const reference_t* r, int kind, int64_t layer) {
  return r->parameters + gpt2_at(r->kinds, kind, layer);
}
static double* gradient(const reference_t* r, int kind, int64_t layer) {
  return r->gradients + gpt2_at(r->kinds, kind, layer);
}

/* ---- Layers ---- */

static void statistics(const double* x, int64_t h, double* mean, double* rstd) {
  double total = 0, squares = 0;
  for (int64_t j = 0; j < h; ++j) total += x[j];
  *mean = total / (double)h;
  for (int64_t j = 0; j < h; ++j) squares += (x[j] - *mean) * (x[j] - *mean);
  *rstd = 1 / sqrt(squares / (double)h + kEps);
}

static void norm(double* y, const double* x, const double* w, const double* b, int64_t n,
                 int64_t h) {
  for (int64_t i = 0; i < n; ++i) {
    double mean, rstd;
    statistics(x + i * h, h, &mean, &rstd);
    for (int64_t j = 0; j < h; ++j) y[i * h + j] = (x[i * h + j] - mean) * rstd * w[j] + b[j];
  }
}

/* Adds to d_x. */
static void norm_gradient(double* d_x, double* d_w, double* d_b, const double* d_y, const double* x,
                          const double* w, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n; ++i) {
    const double *row = x + i * h, *d = d_y + i * h;
    double mean, rstd, along = 0, level = 0;
    statistics(row, h, &mean, &rstd);
    for (int64_t j = 0; j < h; ++j) {
      const double unit = (row[j] - mean) * rstd;
      along += d[j] * w[j] * unit / (double)h;
      level += d[j] * w[j] / (double)h;
      d_w[j] += d[j] * unit;
      d_b[j] += d[j];
    }
    for (int64_t j = 0; j < h; ++j)
      d_x[i * h + j] += rstd * (d[j] * w[j] - (row[j] - mean) * rstd * along - level);
  }
}

static void linear(double* y, const double* x, const double* w, const double* b, int64_t n,
                   int64_t in, int64_t out) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out; ++o) {
      double total = b ? b[o] : 0;
      for (int64_t j = 0; j < in; ++j) total += x[i * in + j] * w[o * in + j];
      y[i * out + o] = total;
    }
}

/* Adds to d_w and d_b; overwrites d_x. */
static void linear_gradient(double* d_x, double* d_w, double* d_b, const double* d_y,
                            const double* x, const double* w, int64_t n, int64_t in, int64_t out) {
  memset(d_x, 0, (size_t)(n * in) * sizeof(double));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out; ++o) {
      const double d = d_y[i * out + o];
      if (d_b) d_b[o] += d;
      for (int64_t j = 0; j < in; ++j) {
        d_w[o * in + j] += d * x[i * in + j];
        d_x[i * in + j] += d * w[o * in + j];
      }
    }
}

static const double kRoot = 0.7978845608028654; /* sqrt(2 / pi) */

static double gelu(double u) {
  return u / 2 * (1 + tanh(kRoot * (u + 0.044715 * u * u * u)));
}
static double gelu_slope(double u) {
  const double t = tanh(kRoot * (u + 0.044715 * u * u * u));
  return (1 + t) / 2 + u / 2 * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * u * u);
}

/* Returns the offset of element i in a head's row t of q (part 0), k (1) or v (2). */
static int64_t place(const reference_t* r, int64_t b, int64_t t, int64_t head, int64_t part,
                     int64_t i) {
  const int64_t h = r->config.width;
  return (b * r->config.context + t) * 3 * h + part * h + head * (h / r->config.heads) + i;
}

static void attention_row(const reference_t* r, layer_t* l, int64_t b, int64_t head, int64_t t) {
  const int64_t d = r->config.width / r->config.heads, length = r->config.context;
  double *p = l->probabilities + ((b * r->config.heads + head) * length + t) * length, total = 0;
  double* out = l->attention + (b * length + t) * r->config.width + head * d;
  for (int64_t u = 0; u <= t; ++u) {
    double score = 0;
    for (int64_t i = 0; i < d; ++i)
      score += l->qkv[place(r, b, t, head, 0, i)] * l->qkv[place(r, b, u, head, 1, i)];
    total += p[u] = exp(score / sqrt((double)d));
  }
  memset(out, 0, (size_t)d * sizeof(double));
  for (int64_t u = 0; u <= t; ++u) {
    p[u] /= total;
    for (int64_t i = 0; i < d; ++i) out[i] += p[u] * l->qkv[place(r, b, u, head, 2, i)];
  }
}

static void attention_row_gradient(const reference_t* r, const layer_t* l, double* d_qkv,
                                   const double* d_out, int64_t b, int64_t head, int64_t t) {
  const int64_t d = r->config.width / r->config.heads, length = r->config.context;
  const double* p = l->probabilities + ((b * r->config.heads + head) * length + t) * length;
  const double* d_row = d_out + (b * length + t) * r->config.width + head * d;
  const double* row = l->attention + (b * length + t) * r->config.width + head * d;
  double mean = 0;
  for (int64_t i = 0; i < d; ++i) mean += d_row[i] * row[i];
  for (int64_t u = 0; u <= t; ++u) {
    double d_p = 0;
    for (int64_t i = 0; i < d; ++i) {
      d_p += d_row[i] * l->qkv[place(r, b, u, head, 2, i)];
      d_qkv[place(r, b, u, head, 2, i)] += p[u] * d_row[i];
    }
    const double d_score = p[u] * (d_p - mean) / sqrt((double)d);
    for (int64_t i = 0; i < d; ++i) {
      d_qkv[place(r, b, t, head, 0, i)] += d_score * l->qkv[place(r, b, u, head, 1, i)];
      d_qkv[place(r, b, u, head, 1, i)] += d_score * l->qkv[place(r, b, t, head, 0, i)];
    }
  }
}

/* ---- The network ---- */

static void add(double* to, const double* a, const double* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

static void forward(reference_t* r, const int32_t* tokens) {
  const int64_t length = r->config.context, n = r->config.batch * length, h = r->config.width;
  double* x = r->layers[0].x;
  for (int64_t i = 0; i < n; ++i)
    add(x + i * h, weight(r, GPT2_TOKENS, 0) + tokens[i] * h,
        weight(r, GPT2_POSITIONS, 0) + i % length * h, h);
  for (int64_t k = 0; k < r->config.layers; ++k) {
    layer_t* l = &r->layers[k];
    norm(l->norm1, l->x, weight(r, GPT2_NORM1_WEIGHT, k), weight(r, GPT2_NORM1_BIAS, k), n, h);
    linear(l->qkv, l->norm1, weight(r, GPT2_QKV_WEIGHT, k), weight(r, GPT2_QKV_BIAS, k), n, h,
           3 * h);
    for (int64_t b = 0; b < r->config.batch; ++b)
      for (int64_t head = 0; head < r->config.heads; ++head)
        for (int64_t t = 0; t < length; ++t) attention_row(r, l, b, head, t);
    linear(l->middle, l->attention, weight(r, GPT2_OUT_WEIGHT, k), weight(r, GPT2_OUT_BIAS, k), n,
           h, h);
    add(l->middle, l->middle, l->x, n * h);
    norm(l->norm2, l->middle, weight(r, GPT2_NORM2_WEIGHT, k), weight(r, GPT2_NORM2_BIAS, k), n, h);
    linear(l->up, l->norm2, weight(r, GPT2_UP_WEIGHT, k), weight(r, GPT2_UP_BIAS, k), n, h, 4 * h);
    for (int64_t i = 0; i < n * 4 * h; ++i) l->gelu[i] = gelu(l->up[i]);
    x = k + 1 < r->config.layers ? r->layers[k + 1].x : r->last;
    linear(x, l->gelu, weight(r, GPT2_DOWN_WEIGHT, k), weight(r, GPT2_DOWN_BIAS, k), n, 4 * h, h);
    add(x, x, l->middle, n * h);
  }
  norm(r->norm, r->last, weight(r, GPT2_NORM_WEIGHT, 0), weight(r, GPT2_NORM_BIAS, 0), n, h);
}

/* Returns the loss. Writes d_row, the loss's gradient with respect to the last norm's output. Adds
 * to the embedding's gradient. */
static double head(reference_t* r, const int32_t* labels) {
  const int64_t n = r->config.batch * r->config.context, h = r->config.width,
                classes = r->config.vocabulary;
  double *logits = doubles((size_t)(n * classes)), loss = 0;
  linear(logits, r->norm, weight(r, GPT2_TOKENS, 0), NULL, n, h, classes);
  for (int64_t i = 0; i < n; ++i) {
    double *z = logits + i * classes, total = 0, most = z[0];
    for (int64_t c = 0; c < classes; ++c) most = fmax(most, z[c]);
    for (int64_t c = 0; c < classes; ++c) total += exp(z[c] - most);
    loss += (most + log(total) - z[labels[i]]) / (double)n;
    for (int64_t c = 0; c < classes; ++c)
      z[c] = (exp(z[c] - most) / total - (c == labels[i])) / (double)n;
  }
  linear_gradient(r->d_row, gradient(r, GPT2_TOKENS, 0), NULL, logits, r->norm,
                  weight(r, GPT2_TOKENS, 0), n, h, classes);
  free(logits);
  return loss;
}

static void layer_gradient(reference_t* r, int64_t k) {
  const int64_t n = r->config.batch * r->config.context, h = r->config.width;
  layer_t* l = &r->layers[k];
  linear_gradient(r->d_wide, gradient(r, GPT2_DOWN_WEIGHT, k), gradient(r, GPT2_DOWN_BIAS, k),
                  r->d_x, l->gelu, weight(r, GPT2_DOWN_WEIGHT, k), n, 4 * h, h);
  for (int64_t i = 0; i < n * 4 * h; ++i) r->d_wide[i] *= gelu_slope(l->up[i]);
  linear_gradient(r->d_row, gradient(r, GPT2_UP_WEIGHT, k), gradient(r, GPT2_UP_BIAS, k), r->d_wide,
                  l->norm2, weight(r, GPT2_UP_WEIGHT, k), n, h, 4 * h);
  norm_gradient(r->d_x, gradient(r, GPT2_NORM2_WEIGHT, k), gradient(r, GPT2_NORM2_BIAS, k),
                r->d_row, l->middle, weight(r, GPT2_NORM2_WEIGHT, k), n, h);
  linear_gradient(r->d_row, gradient(r, GPT2_OUT_WEIGHT, k), gradient(r, GPT2_OUT_BIAS, k), r->d_x,
                  l->attention, weight(r, GPT2_OUT_WEIGHT, k), n, h, h);
  memset(r->d_wide, 0, (size_t)(n * 3 * h) * sizeof(double));
  for (int64_t b = 0; b < r->config.batch; ++b)
    for (int64_t head = 0; head < r->config.heads; ++head)
      for (int64_t t = 0; t < r->config.context; ++t)
        attention_row_gradient(r, l, r->d_wide, r->d_row, b, head, t);
  linear_gradient(r->d_row, gradient(r, GPT2_QKV_WEIGHT, k), gradient(r, GPT2_QKV_BIAS, k),
                  r->d_wide, l->norm1, weight(r, GPT2_QKV_WEIGHT, k), n, h, 3 * h);
  norm_gradient(r->d_x, gradient(r, GPT2_NORM1_WEIGHT, k), gradient(r, GPT2_NORM1_BIAS, k),
                r->d_row, l->x, weight(r, GPT2_NORM1_WEIGHT, k), n, h);
}

double reference_loss(reference_t* r, const int32_t* tokens, const int32_t* labels) {
  const int64_t length = r->config.context, n = r->config.batch * length, h = r->config.width;
  memset(r->gradients, 0, r->count * sizeof(double));
  forward(r, tokens);
  const double loss = head(r, labels);
  memset(r->d_x, 0, (size_t)(n * h) * sizeof(double));
  norm_gradient(r->d_x, gradient(r, GPT2_NORM_WEIGHT, 0), gradient(r, GPT2_NORM_BIAS, 0), r->d_row,
                r->last, weight(r, GPT2_NORM_WEIGHT, 0), n, h);
  for (int64_t k = r->config.layers - 1; k >= 0; --k) layer_gradient(r, k);
  for (int64_t i = 0; i < n; ++i) {
    double *d_token = gradient(r, GPT2_TOKENS, 0) + tokens[i] * h,
           *d_position = gradient(r, GPT2_POSITIONS, 0) + i % length * h;
    add(d_token, d_token, r->d_x + i * h, h);
    add(d_position, d_position, r->d_x + i * h, h);
  }
  return loss;
}

double reference_update(reference_t* r, const gpt2_optimiser_t* o, int64_t step) {
  double squares = 0;
  for (size_t i = 0; i < r->count; ++i) squares += r->gradients[i] * r->gradients[i];
  const double norm = sqrt(squares), factor = fmin(1, o->max_norm / (norm + 1e-6));
  for (int kind = 0; kind < GPT2_KINDS; ++kind) {
    const double decay = r->kinds[kind].rows > 1 ? o->weight_decay : 0;
    for (size_t i = r->kinds[kind].begin; i < gpt2_at(r->kinds, kind, r->kinds[kind].layers); ++i) {
      const double g = factor * r->gradients[i];
      r->m[i] = o->beta1 * r->m[i] + (1 - (double)o->beta1) * g;
      r->v[i] = o->beta2 * r->v[i] + (1 - (double)o->beta2) * g * g;
      const double m = r->m[i] / (1 - pow(o->beta1, (double)step)),
                   v = r->v[i] / (1 - pow(o->beta2, (double)step));
      r->parameters[i] -= o->lr * (m / (sqrt(v) + o->eps) + decay * r->parameters[i]);
    }
  }
  return norm;
}

double reference_slope_error(reference_t* r, const int32_t* tokens, const int32_t* labels) {
  const double step = 1e-6;
  double *direction = doubles(r->count), slope = 0, losses[2];
  uint64_t seed = 1;
  reference_loss(r, tokens, labels);
  for (size_t i = 0; i < r->count; ++i) {
    /* Each element has its gradient's sign, so that the terms of the slope do not cancel. */
    direction[i] = random_uniform(&seed) * (r->gradients[i] > 0 ? 1 : -1);
    slope += direction[i] * r->gradients[i];
  }
  for (int side = 0; side < 2; ++side) {
    const double by = side ? step : -step;
    for (size_t i = 0; i < r->count; ++i) r->parameters[i] += by * direction[i];
    losses[side] = reference_loss(r, tokens, labels);
    for (size_t i = 0; i < r->count; ++i) r->parameters[i] -= by * direction[i];
  }
  free(direction);
  return fabs((losses[1] - losses[0]) / (2 * step) - slope) / fabs(slope);
}
