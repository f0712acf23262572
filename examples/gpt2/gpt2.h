/* GPT-2 in C: learned positions, LayerNorm before attention and before the MLP, GELU in the tanh
 * form, lm_head tied to the embedding (Radford et al., "Language models are unsupervised multitask
 * learners", 2019).
 * Everything is float32 and row-major. A matrix has one row per output: y = x W^T + b. */
#ifndef GPT2_H_
#define GPT2_H_

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t vocabulary, layers, heads, width; /* heads divide width */
  int64_t batch, context;                   /* sequences per step, tokens per sequence */
} gpt2_config_t;

/* All parameters are in one array, ordered by kind and then by layer. */
enum {
  GPT2_TOKENS,    /* [vocabulary, width]: embedding and lm_head */
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
  int64_t rows, cols; /* per layer; a vector has one row */
  int64_t layers;     /* number of layers with this kind */
  size_t begin;       /* offset of the first layer's parameter in the array */
} gpt2_kind_t;

/* Fills in the shape and offset of each kind. Returns the number of parameters. */
size_t gpt2_kinds(const gpt2_config_t* config, gpt2_kind_t kinds[GPT2_KINDS]);
/* Draws matrices from a normal distribution with deviation 0.02, or less for projections into the
 * residual stream. Weights of norms are 1, and biases are 0. */
void gpt2_initialise(const gpt2_config_t* config, float* parameters, uint64_t seed);

/* Returns the offset of a parameter. */
static inline size_t gpt2_at(const gpt2_kind_t kinds[GPT2_KINDS], int kind, int64_t layer) {
  return kinds[kind].begin + (size_t)(layer * kinds[kind].rows * kinds[kind].cols);
}

typedef struct {
  float lr, beta1, beta2, eps, weight_decay; /* AdamW; only matrices decay */
  float max_norm;                            /* limit of the norm of all gradients together */
} gpt2_optimiser_t;

/* ---- with libligerdsl (model.c) ---- */
typedef struct gpt2 gpt2_t;
gpt2_t* gpt2_create(const gpt2_config_t* config); /* prints an error and exits on failure */
void gpt2_destroy(gpt2_t* model);
float* gpt2_parameters(gpt2_t* model);
/* tokens, labels: [batch, context]; labels[i] is the token after tokens[i]. Returns the mean loss
 * and stores the gradients of all parameters. */
float gpt2_loss(gpt2_t* model, const int32_t* tokens, const int32_t* labels);
/* Updates the parameters with the gradients of gpt2_loss. `step` counts from 1. Returns the norm of
 * the gradients before clipping. */
float gpt2_update(gpt2_t* model, const gpt2_optimiser_t* optimiser, int64_t step);

/* ---- the same in plain float64 loops, for comparison (reference.c) ---- */
typedef struct reference reference_t;
reference_t* reference_create(const gpt2_config_t* config, const float* parameters);
void reference_destroy(reference_t* model);
double reference_loss(reference_t* model, const int32_t* tokens, const int32_t* labels);
double reference_update(reference_t* model, const gpt2_optimiser_t* optimiser, int64_t step);
/* Returns the relative difference between two slopes of the loss in a random direction: from the
 * gradients, and from central differences. */
double reference_slope_error(reference_t* model, const int32_t* tokens, const int32_t* labels);

#endif
