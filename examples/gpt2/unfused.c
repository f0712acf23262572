#include "unfused.h"

#include "layers.h"
#include "tensors.h"

void residual_sum(ligerdsl_context_t context, float* out, const float* x, const float* residual,
                  int64_t count) {
  ligerdsl_vector_add_desc_t desc = LIGERDSL_VECTOR_ADD_DESC_INIT;
  ligerdsl_vector_add_args_t args = LIGERDSL_VECTOR_ADD_ARGS_INIT;
  args.a = VECTOR(x, count);
  args.b = VECTOR(residual, count);
  args.out = VECTOR(out, count);
  check(ligerdsl_vector_add(context, &desc, &args, NULL));
}

void softmax(ligerdsl_context_t context, float* y, const float* x, int64_t n, int64_t h) {
  ligerdsl_softmax_forward_desc_t desc = LIGERDSL_SOFTMAX_FORWARD_DESC_INIT;
  ligerdsl_softmax_forward_args_t args = LIGERDSL_SOFTMAX_FORWARD_ARGS_INIT;
  args.x = ROWS(x, n, h);
  args.y = ROWS(y, n, h);
  check(ligerdsl_softmax_forward(context, &desc, &args, NULL));
}

void softmax_gradient(ligerdsl_context_t context, float* d_x, const float* d_y, const float* y,
                      int64_t n, int64_t h) {
  ligerdsl_softmax_backward_desc_t desc = LIGERDSL_SOFTMAX_BACKWARD_DESC_INIT;
  ligerdsl_softmax_backward_args_t args = LIGERDSL_SOFTMAX_BACKWARD_ARGS_INIT;
  args.y = ROWS(y, n, h);
  args.d_y = ROWS(d_y, n, h);
  args.d_x = ROWS(d_x, n, h);
  check(ligerdsl_softmax_backward(context, &desc, &args, NULL));
}

float cross_entropy(ligerdsl_context_t context, float* d_logits, const float* logits,
                    const int32_t* labels, int64_t n, int64_t h) {
  ligerdsl_cross_entropy_desc_t desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
  ligerdsl_cross_entropy_args_t args = LIGERDSL_CROSS_ENTROPY_ARGS_INIT;
  float loss;
  args.logits = ROWS(logits, n, h);
  args.labels = IDS(labels, n);
  args.loss = VECTOR(&loss, 1);
  args.d_logits = ROWS(d_logits, n, h);
  check(ligerdsl_cross_entropy(context, &desc, &args, NULL));
  return loss;
}
