/* The layers, on rows of float32: n rows of h columns. libligerdsl does all arithmetic except
 * matmuls (CBLAS) and attention (plain loops). */
#ifndef GPT2_LAYERS_H_
#define GPT2_LAYERS_H_

#include <ligerdsl/ligerdsl.h>
#include <stdint.h>

/* Exits with the library's message unless status is success. */
void check(ligerdsl_status_t status);

/* out[i] = tokens_weight[tokens[i]] + positions_weight[i mod context]. */
void embedding(ligerdsl_context_t context, float* out, const int32_t* tokens, const float* weight,
               const float* positions, int64_t n, int64_t h, int64_t vocabulary, int64_t length);
/* Adds to d_weight; overwrites d_positions. */
void embedding_gradient(ligerdsl_context_t context, float* d_weight, float* d_positions,
                        const int32_t* tokens, const float* d_out, int64_t n, int64_t h,
                        int64_t vocabulary, int64_t length);

typedef struct {
  float *sum, *out, *mean, *rstd; /* input, output and statistics of the norm */
} norm_t;
/* sum = x + residual, out = LayerNorm(sum). If residual is NULL, so is x, and sum is an input. */
void norm(ligerdsl_context_t context, norm_t y, const float* x, const float* residual,
          const float* weight, const float* bias, int64_t n, int64_t h);
/* Adds the gradient of `sum` that results from d_out to d_sum. If d_sum is NULL, this gradient
 * overwrites d_out. */
void norm_gradient(ligerdsl_context_t context, float* d_sum, float* d_out, float* d_weight,
                   float* d_bias, norm_t y, const float* weight, int64_t n, int64_t h);

/* bias adds b to every row of y. bias_gradient computes the gradient of b. */
void bias(ligerdsl_context_t context, float* y, const float* b, int64_t n, int64_t h);
void bias_gradient(ligerdsl_context_t context, float* d_b, const float* d_y, int64_t n, int64_t h);

/* y = x W^T + b for W [out, in]. */
void linear(ligerdsl_context_t context, float* y, const float* x, const float* weight,
            const float* b, int64_t n, int64_t in, int64_t out);
void linear_gradient(ligerdsl_context_t context, float* d_x, float* d_weight, float* d_bias,
                     const float* d_y, const float* x, const float* weight, int64_t n, int64_t in,
                     int64_t out);

void gelu(ligerdsl_context_t context, float* y, const float* x, int64_t n, int64_t h);
void gelu_gradient(ligerdsl_context_t context, float* d_x, const float* d_y, const float* x,
                   int64_t n, int64_t h);

/* qkv [batch, length, 3 h], causal; probabilities [batch, heads, length, length]. */
typedef struct {
  int64_t batch, length, heads, h;
} attention_shape_t;
void attention(float* out, float* probabilities, const float* qkv, attention_shape_t shape);
void attention_gradient(float* d_qkv, const float* d_out, const float* probabilities,
                        const float* qkv, attention_shape_t shape);

/* Returns the mean loss of the lm_head x weight^T; writes its gradients. Never stores all logits.
 * d_x may be x. */
float head(ligerdsl_context_t context, float* d_x, float* d_weight, const float* x,
           const float* weight, const int32_t* labels, int64_t n, int64_t h, int64_t vocabulary);

/* Computes the norm of all gradients, and the factor that limits it to `most`. */
void clip(ligerdsl_context_t context, float* norm, float* factor, const float* gradients, int64_t n,
          float most);
typedef struct {
  float lr, beta1, beta2, eps, weight_decay;
  int64_t step;
} adamw_t;
void adamw_step(ligerdsl_context_t context, float* parameters, float* m, float* v,
                const float* gradients, const float* factor, int64_t n, adamw_t adamw);

#endif
