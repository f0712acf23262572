// Matmuls, and the lm_head fused with its loss.
#include "ops_impl.h"

namespace train {

// Chooses the operation by the order of both operands: nn, nt, tn, tt.
#define TRAIN_PRODUCT(family, FAMILY)                                                              \
  void Ops::family(const Tensor& c, const Operand& a, const Operand& b, float alpha, float beta) { \
    Arguments tensor(impl_->device);                                                               \
    const auto run = [&](auto desc, auto args) {                                                   \
      desc.alpha = alpha;                                                                          \
      desc.beta = beta;                                                                            \
      args.a = tensor(a.tensor);                                                                   \
      args.b = tensor(b.tensor);                                                                   \
      args.c = tensor(c);                                                                          \
      impl_->run(desc, args);                                                                      \
    };                                                                                             \
    if (a.transposed && b.transposed)                                                              \
      run(ligerdsl_##family##_tt_desc_t LIGERDSL_##FAMILY##_TT_DESC_INIT,                          \
          ligerdsl_##family##_tt_args_t LIGERDSL_##FAMILY##_TT_ARGS_INIT);                         \
    else if (a.transposed)                                                                         \
      run(ligerdsl_##family##_tn_desc_t LIGERDSL_##FAMILY##_TN_DESC_INIT,                          \
          ligerdsl_##family##_tn_args_t LIGERDSL_##FAMILY##_TN_ARGS_INIT);                         \
    else if (b.transposed)                                                                         \
      run(ligerdsl_##family##_nt_desc_t LIGERDSL_##FAMILY##_NT_DESC_INIT,                          \
          ligerdsl_##family##_nt_args_t LIGERDSL_##FAMILY##_NT_ARGS_INIT);                         \
    else                                                                                           \
      run(ligerdsl_##family##_nn_desc_t LIGERDSL_##FAMILY##_NN_DESC_INIT,                          \
          ligerdsl_##family##_nn_args_t LIGERDSL_##FAMILY##_NN_ARGS_INIT);                         \
  }
TRAIN_PRODUCT(matmul, MATMUL)
TRAIN_PRODUCT(batched_matmul, BATCHED_MATMUL)
#undef TRAIN_PRODUCT

void Ops::fused_linear_cross_entropy(const FusedLinearCrossEntropy& c) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_linear_cross_entropy_desc_t desc = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  desc.reduction = LIGERDSL_REDUCTION_MEAN;
  desc.ignore_index = c.settings.ignored;
  desc.label_smoothing = static_cast<float>(c.settings.smoothing);
  desc.lse_square_scale = static_cast<float>(c.settings.lse_square_scale);
  desc.softcap = static_cast<float>(c.settings.softcap);
  desc.temperature = static_cast<float>(c.settings.temperature);
  ligerdsl_fused_linear_cross_entropy_args_t args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_ARGS_INIT;
  args.x = tensor(c.x);
  args.weight = tensor(c.weight);
  args.bias = tensor(c.bias);
  args.labels = tensor(c.labels);
  args.class_weight = tensor(c.class_weight);
  args.lse = tensor(c.lse);
  args.d_entropy = tensor(c.d_entropy);
  args.d_x = tensor(c.d_x);
  args.d_weight = tensor(c.d_weight);
  args.d_bias = tensor(c.d_bias);
  args.loss = tensor(c.loss);
  args.z_loss = tensor(c.z_loss);
  args.accuracy = tensor(c.accuracy);
  args.predictions = tensor(c.predictions);
  args.entropy = tensor(c.entropy);
  impl_->run(desc, args);
}

}  // namespace train
