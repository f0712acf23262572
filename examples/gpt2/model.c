/* The network, forward and backward, and its optimiser, as calls of layers.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt2.h"
#include "layers.h"

/* Activations that the forward pass saves for the backward pass. */
typedef struct {
  norm_t norm1, norm2;
  float *qkv, *probabilities, *attention, *up, *gelu;
} layer_t;

struct gpt2 {
  gpt2_config_t config;
  gpt2_kind_t kinds[GPT2_KINDS];
  ligerdsl_context_t context;
  size_t count;
  float *parameters, *gradients, *m, *v;
  layer_t* layers;
  norm_t last;
  float *branch, *d_sum, *d_branch, *d_wide; /* [n, h]; gradients [n, h] and [n, 4 h] */
};

static float* floats(size_t count) {
  float* values = calloc(count ? count : 1, sizeof(float));
  if (!values) {
    fprintf(stderr, "gpt2: out of memory: cannot allocate %zu floats\n", count);
    exit(1);
  }
  return values;
}

static norm_t norm_of(size_t n, size_t h) {
  return (norm_t){floats(n * h), floats(n * h), floats(n), floats(n)};
}

static void free_norm(norm_t norm) {
  free(norm.sum);
  free(norm.out);
  free(norm.mean);
  free(norm.rstd);
}

gpt2_t* gpt2_create(const gpt2_config_t* config) {
  gpt2_t* g = calloc(1, sizeof *g);
  layer_t* layers = calloc((size_t)config->layers, sizeof *layers);
  if (!g || !layers) {
    fprintf(stderr, "gpt2: out of memory\n");
    exit(1);
  }
  const size_t n = (size_t)(config->batch * config->context), h = (size_t)config->width;
  g->config = *config;
  g->count = gpt2_kinds(config, g->kinds);
  g->parameters = floats(g->count);
  g->gradients = floats(g->count);
  g->m = floats(g->count);
  g->v = floats(g->count);
  g->layers = layers;
  for (int64_t i = 0; i < config->layers; ++i)
    layers[i] = (layer_t){.norm1 = norm_of(n, h),
                          .norm2 = norm_of(n, h),
                          .qkv = floats(n * 3 * h),
                          .probabilities = floats(n * (size_t)(config->heads * config->context)),
                          .attention = floats(n * h),
                          .up = floats(n * 4 * h),
                          .gelu = floats(n * 4 * h)};
  g->last = norm_of(n, h);
  g->branch = floats(n * h);
  g->d_sum = floats(n * h);
  g->d_branch = floats(n * h);
  g->d_wide = floats(n * 4 * h);
  ligerdsl_context_config_t of = LIGERDSL_CONTEXT_CONFIG_INIT;
  check(ligerdsl_context_create(&of, &g->context));
  return g;
}

void gpt2_destroy(gpt2_t* g) {
  if (!g) return;
  for (int64_t i = 0; i < g->config.layers; ++i) {
    layer_t* layer = &g->layers[i];
    free_norm(layer->norm1);
    free_norm(layer->norm2);
    free(layer->qkv);
    free(layer->probabilities);
    free(layer->attention);
    free(layer->up);
    free(layer->gelu);
  }
  free_norm(g->last);
  float* rest[] = {g->parameters, g->gradients, g->m,        g->v,
                   g->branch,     g->d_sum,     g->d_branch, g->d_wide};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; ++i) free(rest[i]);
  free(g->layers);
  ligerdsl_context_destroy(g->context);
  free(g);
}

float* gpt2_parameters(gpt2_t* g) {
  return g->parameters;
}

static float* weight(const gpt2_t* g, int kind, int64_t layer) {
  return g->parameters + gpt2_at(g->kinds, kind, layer);
}
static float* gradient(const gpt2_t* g, int kind, int64_t layer) {
  return g->gradients + gpt2_at(g->kinds, kind, layer);
}
static attention_shape_t attention_shape(const gpt2_t* g) {
  return (attention_shape_t){g->config.batch, g->config.context, g->config.heads, g->config.width};
}

static void forward(gpt2_t* g, const int32_t* tokens) {
  const int64_t n = g->config.batch * g->config.context, h = g->config.width;
  ligerdsl_context_t c = g->context;
  const float *added = NULL, *residual = NULL; /* inputs of the next norm's sum */
  embedding(c, g->layers[0].norm1.sum, tokens, weight(g, GPT2_TOKENS, 0),
            weight(g, GPT2_POSITIONS, 0), n, h, g->config.vocabulary, g->config.context);
  for (int64_t i = 0; i < g->config.layers; ++i) {
    layer_t* l = &g->layers[i];
    norm(c, l->norm1, added, residual, weight(g, GPT2_NORM1_WEIGHT, i),
         weight(g, GPT2_NORM1_BIAS, i), n, h);
    linear(c, l->qkv, l->norm1.out, weight(g, GPT2_QKV_WEIGHT, i), weight(g, GPT2_QKV_BIAS, i), n,
           h, 3 * h);
    attention(l->attention, l->probabilities, l->qkv, attention_shape(g));
    linear(c, g->branch, l->attention, weight(g, GPT2_OUT_WEIGHT, i), weight(g, GPT2_OUT_BIAS, i),
           n, h, h);
    norm(c, l->norm2, g->branch, l->norm1.sum, weight(g, GPT2_NORM2_WEIGHT, i),
         weight(g, GPT2_NORM2_BIAS, i), n, h);
    linear(c, l->up, l->norm2.out, weight(g, GPT2_UP_WEIGHT, i), weight(g, GPT2_UP_BIAS, i), n, h,
           4 * h);
    gelu(c, l->gelu, l->up, n, 4 * h);
    linear(c, g->branch, l->gelu, weight(g, GPT2_DOWN_WEIGHT, i), weight(g, GPT2_DOWN_BIAS, i), n,
           4 * h, h);
    added = g->branch;
    residual = l->norm2.sum;
  }
  norm(c, g->last, added, residual, weight(g, GPT2_NORM_WEIGHT, 0), weight(g, GPT2_NORM_BIAS, 0), n,
       h);
}

/* On entry, d_branch holds the gradient of the last norm's result. */
static void backward(gpt2_t* g, const int32_t* tokens) {
  const int64_t n = g->config.batch * g->config.context, h = g->config.width;
  ligerdsl_context_t c = g->context;
  norm_gradient(c, NULL, g->d_branch, gradient(g, GPT2_NORM_WEIGHT, 0),
                gradient(g, GPT2_NORM_BIAS, 0), g->last, weight(g, GPT2_NORM_WEIGHT, 0), n, h);
  memcpy(g->d_sum, g->d_branch, (size_t)(n * h) * sizeof(float));
  for (int64_t i = g->config.layers - 1; i >= 0; --i) {
    layer_t* l = &g->layers[i];
    linear_gradient(c, g->d_wide, gradient(g, GPT2_DOWN_WEIGHT, i), gradient(g, GPT2_DOWN_BIAS, i),
                    g->d_sum, l->gelu, weight(g, GPT2_DOWN_WEIGHT, i), n, 4 * h, h);
    gelu_gradient(c, g->d_wide, g->d_wide, l->up, n, 4 * h);
    linear_gradient(c, g->d_branch, gradient(g, GPT2_UP_WEIGHT, i), gradient(g, GPT2_UP_BIAS, i),
                    g->d_wide, l->norm2.out, weight(g, GPT2_UP_WEIGHT, i), n, h, 4 * h);
    norm_gradient(c, g->d_sum, g->d_branch, gradient(g, GPT2_NORM2_WEIGHT, i),
                  gradient(g, GPT2_NORM2_BIAS, i), l->norm2, weight(g, GPT2_NORM2_WEIGHT, i), n, h);
    linear_gradient(c, g->d_branch, gradient(g, GPT2_OUT_WEIGHT, i), gradient(g, GPT2_OUT_BIAS, i),
                    g->d_sum, l->attention, weight(g, GPT2_OUT_WEIGHT, i), n, h, h);
    attention_gradient(g->d_wide, g->d_branch, l->probabilities, l->qkv, attention_shape(g));
    linear_gradient(c, g->d_branch, gradient(g, GPT2_QKV_WEIGHT, i), gradient(g, GPT2_QKV_BIAS, i),
                    g->d_wide, l->norm1.out, weight(g, GPT2_QKV_WEIGHT, i), n, h, 3 * h);
    norm_gradient(c, g->d_sum, g->d_branch, gradient(g, GPT2_NORM1_WEIGHT, i),
                  gradient(g, GPT2_NORM1_BIAS, i), l->norm1, weight(g, GPT2_NORM1_WEIGHT, i), n, h);
  }
  embedding_gradient(c, gradient(g, GPT2_TOKENS, 0), gradient(g, GPT2_POSITIONS, 0), tokens,
                     g->d_sum, n, h, g->config.vocabulary, g->config.context);
}

float gpt2_loss(gpt2_t* g, const int32_t* tokens, const int32_t* labels) {
  forward(g, tokens);
  const float loss = head(g->context, g->d_branch, gradient(g, GPT2_TOKENS, 0), g->last.out,
                          weight(g, GPT2_TOKENS, 0), labels, g->config.batch * g->config.context,
                          g->config.width, g->config.vocabulary);
  backward(g, tokens);
  check(ligerdsl_context_check(g->context, NULL)); /* finds tokens outside of the vocabulary */
  return loss;
}

float gpt2_update(gpt2_t* g, const gpt2_optimiser_t* o, int64_t step) {
  float norm, factor;
  clip(g->context, &norm, &factor, g->gradients, (int64_t)g->count, o->max_norm);
  for (int kind = 0; kind < GPT2_KINDS; ++kind) {
    const size_t begin = g->kinds[kind].begin, end = gpt2_at(g->kinds, kind, g->kinds[kind].layers);
    const adamw_t adamw = {
        o->lr, o->beta1, o->beta2, o->eps, g->kinds[kind].rows > 1 ? o->weight_decay : 0, step};
    adamw_step(g->context, g->parameters + begin, g->m + begin, g->v + begin, g->gradients + begin,
               &factor, (int64_t)(end - begin), adamw);
  }
  return norm;
}
