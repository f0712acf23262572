/* Layers that this trainer uses only fused with others, as separate functions for trainers that do
 * not: residual sum without a norm, softmax of attention scores, loss of stored logits. Rows are
 * float32: n rows of h columns. */
#ifndef GPT2_UNFUSED_H_
#define GPT2_UNFUSED_H_

#include <ligerdsl/ligerdsl.h>
#include <stdint.h>

/* out = x + residual. */
void residual_sum(ligerdsl_context_t context, float* out, const float* x, const float* residual,
                  int64_t count);

void softmax(ligerdsl_context_t context, float* y, const float* x, int64_t n, int64_t h);
void softmax_gradient(ligerdsl_context_t context, float* d_x, const float* d_y, const float* y,
                      int64_t n, int64_t h);

/* Returns the mean loss of n rows of h logits; writes its gradient. */
float cross_entropy(ligerdsl_context_t context, float* d_logits, const float* logits,
                    const int32_t* labels, int64_t n, int64_t h);

#endif
