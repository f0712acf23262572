#include "plain.h"

#include <math.h>

void plain_embedding(float* out, const int32_t* tokens, const float* weight, const float* positions,
                     int64_t n, int64_t h, int64_t length) {
  for (int64_t i = 0; i < n; ++i) {
    const float *token = weight + tokens[i] * h, *position = positions + i % length * h;
    for (int64_t j = 0; j < h; ++j) out[i * h + j] = token[j] + position[j];
  }
}

void plain_embedding_gradient(float* d_weight, float* d_positions, const int32_t* tokens,
                              const float* d_out, int64_t n, int64_t h, int64_t length) {
  for (int64_t i = 0; i < n; ++i) {
    float *token = d_weight + tokens[i] * h, *position = d_positions + i % length * h;
    for (int64_t j = 0; j < h; ++j) {
      const float d = d_out[i * h + j];
      token[j] += d;
      position[j] = i < length ? d : position[j] + d;
    }
  }
}

void plain_norm(norm_t y, const float* x, const float* residual, const float* weight,
                const float* bias, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n; ++i) {
    float *sum = y.sum + i * h, *out = y.out + i * h, mean = 0, variance = 0;
    if (x)
      for (int64_t j = 0; j < h; ++j) sum[j] = x[i * h + j] + residual[i * h + j];
    for (int64_t j = 0; j < h; ++j) mean += sum[j];
    mean /= (float)h;
    for (int64_t j = 0; j < h; ++j) variance += (sum[j] - mean) * (sum[j] - mean);
    const float rstd = 1 / sqrtf(variance / (float)h + 1e-5f);
    for (int64_t j = 0; j < h; ++j) out[j] = (sum[j] - mean) * rstd * weight[j] + bias[j];
    y.mean[i] = mean;
    y.rstd[i] = rstd;
  }
}

void plain_norm_gradient(float* d_sum, const float* d_out, float* d_weight, float* d_bias, norm_t y,
                         const float* weight, int64_t n, int64_t h) {
  for (int64_t j = 0; j < h; ++j) d_weight[j] = d_bias[j] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float *d = d_out + i * h, *sum = y.sum + i * h, mean = y.mean[i], rstd = y.rstd[i];
    float level = 0, along = 0;
    for (int64_t j = 0; j < h; ++j) {
      level += d[j] * weight[j];
      along += d[j] * weight[j] * (sum[j] - mean) * rstd;
    }
    level /= (float)h;
    along /= (float)h;
    for (int64_t j = 0; j < h; ++j) {
      const float unit = (sum[j] - mean) * rstd;
      d_weight[j] += d[j] * unit;
      d_bias[j] += d[j];
      d_sum[i * h + j] += rstd * (d[j] * weight[j] - level - unit * along);
    }
  }
}

void plain_bias(float* y, const float* b, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < h; ++j) y[i * h + j] += b[j];
}

void plain_bias_gradient(float* d_b, const float* d_y, int64_t n, int64_t h) {
  for (int64_t j = 0; j < h; ++j) d_b[j] = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < h; ++j) d_b[j] += d_y[i * h + j];
}

static const float kRoot = 0.79788456f; /* sqrt(2 / pi) */

void plain_gelu(float* y, const float* x, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n * h; ++i) {
    const float u = x[i];
    y[i] = 0.5f * u * (1 + tanhf(kRoot * (u + 0.044715f * u * u * u)));
  }
}

void plain_gelu_gradient(float* d_x, const float* d_y, const float* x, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n * h; ++i) {
    const float u = x[i], t = tanhf(kRoot * (u + 0.044715f * u * u * u));
    d_x[i] =
        d_y[i] * (0.5f * (1 + t) + 0.5f * u * (1 - t * t) * kRoot * (1 + 3 * 0.044715f * u * u));
  }
}

void plain_clip(float* norm, float* factor, const float* gradients, int64_t n, float most) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (double)gradients[i] * gradients[i];
  *norm = (float)sqrt(squares);
  *factor = fminf(1, most / (*norm + 1e-6f));
}

void plain_adamw_step(float* parameters, float* m, float* v, const float* gradients, float factor,
                      int64_t n, adamw_t a) {
  const float first = 1 / (1 - powf(a.beta1, (float)a.step)),
              second = 1 / (1 - powf(a.beta2, (float)a.step));
  for (int64_t i = 0; i < n; ++i) {
    const float g = gradients[i] * factor;
    m[i] = a.beta1 * m[i] + (1 - a.beta1) * g;
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
    parameters[i] -=
        a.lr * (m[i] * first / (sqrtf(v[i] * second) + a.eps) + a.weight_decay * parameters[i]);
  }
}

void plain_residual_sum(float* out, const float* x, const float* residual, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] + residual[i];
}

/* Writes y = exp(x - max x); returns the sum. */
static float exponentials(float* y, const float* x, int64_t h) {
  float most = x[0], sum = 0;
  for (int64_t j = 1; j < h; ++j) most = x[j] > most ? x[j] : most;
  for (int64_t j = 0; j < h; ++j) {
    y[j] = expf(x[j] - most);
    sum += y[j];
  }
  return sum;
}

void plain_softmax(float* y, const float* x, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n; ++i) {
    const float part = 1 / exponentials(y + i * h, x + i * h, h);
    for (int64_t j = 0; j < h; ++j) y[i * h + j] *= part;
  }
}

void plain_softmax_gradient(float* d_x, const float* d_y, const float* y, int64_t n, int64_t h) {
  for (int64_t i = 0; i < n; ++i) {
    float along = 0;
    for (int64_t j = 0; j < h; ++j) along += d_y[i * h + j] * y[i * h + j];
    for (int64_t j = 0; j < h; ++j) d_x[i * h + j] = y[i * h + j] * (d_y[i * h + j] - along);
  }
}

float plain_cross_entropy(float* d_logits, const float* logits, const int32_t* labels, int64_t n,
                          int64_t h) {
  float loss = 0;
  for (int64_t i = 0; i < n; ++i) {
    float* d = d_logits + i * h;
    const float part = 1 / exponentials(d, logits + i * h, h);
    loss -= logf(d[labels[i]] * part);
    for (int64_t j = 0; j < h; ++j) d[j] *= part / (float)n;
    d[labels[i]] -= 1 / (float)n;
  }
  return loss / (float)n;
}
