/* The layers of layers.h as loops that a compiler can optimise, for timing. */
#ifndef GPT2_PLAIN_H_
#define GPT2_PLAIN_H_

#include "layers.h"

void plain_embedding(float* out, const int32_t* tokens, const float* weight, const float* positions,
                     int64_t n, int64_t h, int64_t length);
void plain_embedding_gradient(float* d_weight, float* d_positions, const int32_t* tokens,
                              const float* d_out, int64_t n, int64_t h, int64_t length);
void plain_norm(norm_t y, const float* x, const float* residual, const float* weight,
                const float* bias, int64_t n, int64_t h);
void plain_norm_gradient(float* d_sum, const float* d_out, float* d_weight, float* d_bias, norm_t y,
                         const float* weight, int64_t n, int64_t h);
void plain_bias(float* y, const float* b, int64_t n, int64_t h);
void plain_bias_gradient(float* d_b, const float* d_y, int64_t n, int64_t h);
void plain_gelu(float* y, const float* x, int64_t n, int64_t h);
void plain_gelu_gradient(float* d_x, const float* d_y, const float* x, int64_t n, int64_t h);
void plain_clip(float* norm, float* factor, const float* gradients, int64_t n, float most);
void plain_adamw_step(float* parameters, float* m, float* v, const float* gradients, float factor,
                      int64_t n, adamw_t adamw);

/* The layers of `unfused.h`. */
void plain_residual_sum(float* out, const float* x, const float* residual, int64_t count);
void plain_softmax(float* y, const float* x, int64_t n, int64_t h);
void plain_softmax_gradient(float* d_x, const float* d_y, const float* y, int64_t n, int64_t h);
float plain_cross_entropy(float* d_logits, const float* logits, const int32_t* labels, int64_t n,
                          int64_t h);

#endif
