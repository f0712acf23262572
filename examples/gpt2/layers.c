#include "layers.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensors.h"

void check(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  fprintf(stderr, "gpt2: %s: %s\n", ligerdsl_status_name(status), ligerdsl_last_error());
  exit(1);
}

void embedding(ligerdsl_context_t context, float* out, const int32_t* tokens, const float* weight,
               const float* positions, int64_t n, int64_t h, int64_t vocabulary, int64_t length) {
  ligerdsl_embedding_forward_desc_t desc = LIGERDSL_EMBEDDING_FORWARD_DESC_INIT;
  ligerdsl_embedding_forward_args_t args = LIGERDSL_EMBEDDING_FORWARD_ARGS_INIT;
  args.indices = IDS(tokens, n);
  args.weight = ROWS(weight, vocabulary, h);
  args.position_weight = ROWS(positions, length, h);
  args.out = ROWS(out, n, h);
  check(ligerdsl_embedding_forward(context, &desc, &args, NULL));
}

void bias_gradient(ligerdsl_context_t context, float* d_b, const float* d_y, int64_t n, int64_t h) {
  ligerdsl_bias_add_backward_desc_t desc = LIGERDSL_BIAS_ADD_BACKWARD_DESC_INIT;
  ligerdsl_bias_add_backward_args_t args = LIGERDSL_BIAS_ADD_BACKWARD_ARGS_INIT;
  args.d_y = ROWS(d_y, n, h);
  args.d_bias = VECTOR(d_b, h);
  check(ligerdsl_bias_add_backward(context, &desc, &args, NULL));
}

void embedding_gradient(ligerdsl_context_t context, float* d_weight, float* d_positions,
                        const int32_t* tokens, const float* d_out, int64_t n, int64_t h,
                        int64_t vocabulary, int64_t length) {
  ligerdsl_embedding_backward_desc_t desc = LIGERDSL_EMBEDDING_BACKWARD_DESC_INIT;
  ligerdsl_embedding_backward_args_t args = LIGERDSL_EMBEDDING_BACKWARD_ARGS_INIT;
  desc.accumulate = 1;
  args.indices = IDS(tokens, n);
  args.d_out = ROWS(d_out, n, h);
  args.d_weight = ROWS(d_weight, vocabulary, h);
  args.d_position_weight = ROWS(d_positions, length, h);
  check(ligerdsl_embedding_backward(context, &desc, &args, NULL));
}

static const float kEps = 1e-5f;

void norm(ligerdsl_context_t context, norm_t y, const float* x, const float* residual,
          const float* weight, const float* bias, int64_t n, int64_t h) {
  if (!x) {
    ligerdsl_layer_norm_forward_desc_t desc = LIGERDSL_LAYER_NORM_FORWARD_DESC_INIT;
    ligerdsl_layer_norm_forward_args_t args = LIGERDSL_LAYER_NORM_FORWARD_ARGS_INIT;
    desc.eps = kEps;
    args.x = ROWS(y.sum, n, h);
    args.weight = VECTOR(weight, h);
    args.bias = VECTOR(bias, h);
    args.y = ROWS(y.out, n, h);
    args.mean = VECTOR(y.mean, n);
    args.rstd = VECTOR(y.rstd, n);
    check(ligerdsl_layer_norm_forward(context, &desc, &args, NULL));
    return;
  }
  ligerdsl_fused_add_layer_norm_forward_desc_t desc =
      LIGERDSL_FUSED_ADD_LAYER_NORM_FORWARD_DESC_INIT;
  ligerdsl_fused_add_layer_norm_forward_args_t args =
      LIGERDSL_FUSED_ADD_LAYER_NORM_FORWARD_ARGS_INIT;
  desc.eps = kEps;
  args.x = ROWS(x, n, h);
  args.residual = ROWS(residual, n, h);
  args.weight = VECTOR(weight, h);
  args.bias = VECTOR(bias, h);
  args.y = ROWS(y.out, n, h);
  args.sum = ROWS(y.sum, n, h);
  args.mean = VECTOR(y.mean, n);
  args.rstd = VECTOR(y.rstd, n);
  check(ligerdsl_fused_add_layer_norm_forward(context, &desc, &args, NULL));
}

void norm_gradient(ligerdsl_context_t context, float* d_sum, float* d_out, float* d_weight,
                   float* d_bias, norm_t y, const float* weight, int64_t n, int64_t h) {
  ligerdsl_fused_add_layer_norm_backward_desc_t desc =
      LIGERDSL_FUSED_ADD_LAYER_NORM_BACKWARD_DESC_INIT;
  ligerdsl_fused_add_layer_norm_backward_args_t args =
      LIGERDSL_FUSED_ADD_LAYER_NORM_BACKWARD_ARGS_INIT;
  args.d_y = ROWS(d_out, n, h);
  args.d_sum = d_sum ? ROWS(d_sum, n, h) : NULL;
  args.sum = ROWS(y.sum, n, h);
  args.weight = VECTOR(weight, h);
  args.mean = VECTOR(y.mean, n);
  args.rstd = VECTOR(y.rstd, n);
  args.d_x = ROWS(d_sum ? d_sum : d_out, n, h);
  args.d_weight = VECTOR(d_weight, h);
  args.d_bias = VECTOR(d_bias, h);
  check(ligerdsl_fused_add_layer_norm_backward(context, &desc, &args, NULL));
}

void bias(ligerdsl_context_t context, float* y, const float* b, int64_t n, int64_t h) {
  ligerdsl_bias_add_forward_desc_t desc = LIGERDSL_BIAS_ADD_FORWARD_DESC_INIT;
  ligerdsl_bias_add_forward_args_t args = LIGERDSL_BIAS_ADD_FORWARD_ARGS_INIT;
  args.x = args.y = ROWS(y, n, h);
  args.bias = VECTOR(b, h);
  check(ligerdsl_bias_add_forward(context, &desc, &args, NULL));
}

void linear(ligerdsl_context_t context, float* y, const float* x, const float* weight,
            const float* b, int64_t n, int64_t in, int64_t out) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)out, (int)in, 1, x, (int)in,
              weight, (int)in, 0, y, (int)out);
  bias(context, y, b, n, out);
}

void linear_gradient(ligerdsl_context_t context, float* d_x, float* d_weight, float* d_bias,
                     const float* d_y, const float* x, const float* weight, int64_t n, int64_t in,
                     int64_t out) {
  bias_gradient(context, d_bias, d_y, n, out);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)out, (int)in, (int)n, 1, d_y, (int)out,
              x, (int)in, 0, d_weight, (int)in);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)in, (int)out, 1, d_y,
              (int)out, weight, (int)in, 0, d_x, (int)in);
}

void gelu(ligerdsl_context_t context, float* y, const float* x, int64_t n, int64_t h) {
  ligerdsl_activation_forward_desc_t desc = LIGERDSL_ACTIVATION_FORWARD_DESC_INIT;
  ligerdsl_activation_forward_args_t args = LIGERDSL_ACTIVATION_FORWARD_ARGS_INIT;
  desc.kind = LIGERDSL_ACTIVATION_GELU_TANH;
  args.x = ROWS(x, n, h);
  args.y = ROWS(y, n, h);
  check(ligerdsl_activation_forward(context, &desc, &args, NULL));
}

void gelu_gradient(ligerdsl_context_t context, float* d_x, const float* d_y, const float* x,
                   int64_t n, int64_t h) {
  ligerdsl_activation_backward_desc_t desc = LIGERDSL_ACTIVATION_BACKWARD_DESC_INIT;
  ligerdsl_activation_backward_args_t args = LIGERDSL_ACTIVATION_BACKWARD_ARGS_INIT;
  desc.kind = LIGERDSL_ACTIVATION_GELU_TANH;
  args.d_y = ROWS(d_y, n, h);
  args.x = ROWS(x, n, h);
  args.d_x = ROWS(d_x, n, h);
  check(ligerdsl_activation_backward(context, &desc, &args, NULL));
}

float head(ligerdsl_context_t context, float* d_x, float* d_weight, const float* x,
           const float* weight, const int32_t* labels, int64_t n, int64_t h, int64_t vocabulary) {
  ligerdsl_fused_linear_cross_entropy_desc_t desc = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  ligerdsl_fused_linear_cross_entropy_args_t args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_ARGS_INIT;
  float loss;
  args.x = ROWS(x, n, h);
  args.weight = ROWS(weight, vocabulary, h);
  args.labels = IDS(labels, n);
  args.loss = VECTOR(&loss, 1);
  args.d_x = ROWS(d_x, n, h);
  args.d_weight = ROWS(d_weight, vocabulary, h);
  check(ligerdsl_fused_linear_cross_entropy(context, &desc, &args, NULL));
  return loss;
}

void clip(ligerdsl_context_t context, float* norm, float* factor, const float* gradients, int64_t n,
          float most) {
  ligerdsl_global_norm_desc_t desc = LIGERDSL_GLOBAL_NORM_DESC_INIT;
  ligerdsl_global_norm_args_t args = LIGERDSL_GLOBAL_NORM_ARGS_INIT;
  args.tensors = VECTOR(gradients, n);
  args.n_tensors = 1;
  args.max_norm = most;
  args.norm = VECTOR(norm, 1);
  args.clip_factor = VECTOR(factor, 1);
  check(ligerdsl_global_norm(context, &desc, &args, NULL));
}

void adamw_step(ligerdsl_context_t context, float* parameters, float* m, float* v,
                const float* gradients, const float* factor, int64_t n, adamw_t adamw) {
  ligerdsl_adamw_step_desc_t desc = LIGERDSL_ADAMW_STEP_DESC_INIT;
  ligerdsl_adamw_step_args_t args = LIGERDSL_ADAMW_STEP_ARGS_INIT;
  args.lr = adamw.lr;
  args.beta1 = adamw.beta1;
  args.beta2 = adamw.beta2;
  args.eps = adamw.eps;
  args.weight_decay = adamw.weight_decay;
  args.step = adamw.step;
  args.param = VECTOR(parameters, n);
  args.grad = VECTOR(gradients, n);
  args.m = VECTOR(m, n);
  args.v = VECTOR(v, n);
  args.clip_factor = VECTOR(factor, 1);
  check(ligerdsl_adamw_step(context, &desc, &args, NULL));
}
