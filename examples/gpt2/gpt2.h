/* GPT-2 in C: learned positions, LayerNorm before each part, GELU in the tanh form, the head tied to the embedding
 * (Radford et al., "Language models are unsupervised multitask learners", 2019). Everything is float32, row-major, and a
 * matrix has a row for each output: y = x W^T + b. */
#ifndef GPT2_H_
#define GPT2_H_

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t vocabulary, layers, heads, width; /* heads divide width */
  int64_t batch, context;                   /* sequences of a step, tokens of a sequence */
} gpt2_config_t;

/* The parameters lie one after the other in one array, those of a kind for all layers together. */
enum {
  GPT2_TOKENS,    /* [vocabulary, width]: embedding and head */
  GPT2_POSITIONS, /* [context, width] */
  GPT2_NORM1_WEIGHT,
  GPT2_NORM1_BIAS,
  GPT2_QKV_WEIGHT, /* [3 width, width] */
  GPT2_QKV_BIAS,
  GPT2_OUT_WEIGHT, /* [width, width] */
  GPT2_OUT_BIAS,
  GPT2_NORM2_WEIGHT,
  GPT2_NORM2_BIAS,
  GPT2_UP_WEIGHT, /* [4 width, width] */
  GPT2_UP_BIAS,
  GPT2_DOWN_WEIGHT, /* [width, 4 width] */
  GPT2_DOWN_BIAS,
  GPT2_NORM_WEIGHT, /* the last norm */
  GPT2_NORM_BIAS,
  GPT2_KINDS
};

typedef struct {
  int64_t rows, cols; /* of one layer's; a vector has one row */
  int64_t layers;     /* that have one */
  size_t begin;       /* where the first lies in the array */
} gpt2_kind_t;

/* Fills in where each kind lies, and returns how many parameters there are. */
size_t gpt2_kinds(const gpt2_config_t* config, gpt2_kind_t kinds[GPT2_KINDS]);
/* Normal numbers of deviation 0.02, smaller where the residual stream is added to; norms are 1 and 0. */
void gpt2_initialise(const gpt2_config_t* config, float* parameters, uint64_t seed);

/* Where one lies. */
static inline size_t gpt2_at(const gpt2_kind_t kinds[GPT2_KINDS], int kind, int64_t layer) {
  return kinds[kind].begin + (size_t)(layer * kinds[kind].rows * kinds[kind].cols);
}

typedef struct {
  float lr, beta1, beta2, eps, weight_decay; /* AdamW; matrices alone decay */
  float max_norm;                            /* of all gradients together */
} gpt2_optimiser_t;

/* ---- with libligerdsl (model.c) ---- */
typedef struct gpt2 gpt2_t;
gpt2_t* gpt2_create(const gpt2_config_t* config); /* exits with a text if it cannot be */
void gpt2_destroy(gpt2_t* model);
float* gpt2_parameters(gpt2_t* model);
/* tokens, labels: [batch, context], labels[i] the token that follows tokens[i]. Returns the mean loss, and leaves the
 * gradients of all parameters. */
float gpt2_loss(gpt2_t* model, const int32_t* tokens, const int32_t* labels);
/* One step, from 1, with those gradients; returns their norm. */
float gpt2_update(gpt2_t* model, const gpt2_optimiser_t* optimiser, int64_t step);

/* ---- the same in plain loops of float64, to compare with (reference.c) ---- */
typedef struct reference reference_t;
reference_t* reference_create(const gpt2_config_t* config, const float* parameters);
void reference_destroy(reference_t* model);
double reference_loss(reference_t* model, const int32_t* tokens, const int32_t* labels);
double reference_update(reference_t* model, const gpt2_optimiser_t* optimiser, int64_t step);
/* How far the slope of the loss in a random direction is from that of differences, relative to it. */
double reference_slope_error(reference_t* model, const int32_t* tokens, const int32_t* labels);

#endif
