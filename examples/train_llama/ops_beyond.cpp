// Operations of the library that the model does not use.
#include "ops_impl.h"

namespace train {

void Ops::vector_add(const Tensor& out, const Tensor& a, const Tensor& b) {
  Arguments tensor(impl_->device);
  ligerdsl_vector_add_desc_t desc = LIGERDSL_VECTOR_ADD_DESC_INIT;
  ligerdsl_vector_add_args_t args = LIGERDSL_VECTOR_ADD_ARGS_INIT;
  args.a = tensor(a);
  args.b = tensor(b);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::scale(const Tensor& out, const Tensor& x, const Tensor& factor) {
  Arguments tensor(impl_->device);
  ligerdsl_scale_desc_t desc = LIGERDSL_SCALE_DESC_INIT;
  ligerdsl_scale_args_t args = LIGERDSL_SCALE_ARGS_INIT;
  args.x = tensor(x);
  args.factor = tensor(factor);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_layer_norm_forward_desc_t desc = LIGERDSL_LAYER_NORM_FORWARD_DESC_INIT;
  desc.eps = static_cast<float>(eps);
  ligerdsl_layer_norm_forward_args_t args = LIGERDSL_LAYER_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.bias = tensor(bias);
  args.y = tensor(y);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::layer_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_bias, const Tensor& d_y,
                              const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_layer_norm_backward_desc_t desc = LIGERDSL_LAYER_NORM_BACKWARD_DESC_INIT;
  ligerdsl_layer_norm_backward_args_t args = LIGERDSL_LAYER_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  args.d_bias = tensor(d_bias);
  impl_->run(desc, args);
}

void Ops::add_layer_norm(const Tensor& y, const Tensor& sum, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                         const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_layer_norm_forward_desc_t desc = LIGERDSL_FUSED_ADD_LAYER_NORM_FORWARD_DESC_INIT;
  desc.eps = static_cast<float>(eps);
  ligerdsl_fused_add_layer_norm_forward_args_t args = LIGERDSL_FUSED_ADD_LAYER_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.residual = tensor(residual);
  args.weight = tensor(weight);
  args.bias = tensor(bias);
  args.y = tensor(y);
  args.sum = tensor(sum);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::add_layer_norm_backward(const NormGradients& out, const Tensor& d_y, const Tensor& d_sum, const Tensor& sum,
                                  const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_layer_norm_backward_desc_t desc = LIGERDSL_FUSED_ADD_LAYER_NORM_BACKWARD_DESC_INIT;
  ligerdsl_fused_add_layer_norm_backward_args_t args = LIGERDSL_FUSED_ADD_LAYER_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.d_sum = tensor(d_sum);
  args.sum = tensor(sum);
  args.weight = tensor(weight);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  args.d_x = tensor(out.d_x);
  args.d_weight = tensor(out.d_weight);
  args.d_bias = tensor(out.d_bias);
  impl_->run(desc, args);
}

void Ops::modulated_rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                             const Tensor& scale, const Tensor& shift, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_modulated_rms_norm_forward_desc_t desc = LIGERDSL_MODULATED_RMS_NORM_FORWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_GEMMA;
  desc.eps = static_cast<float>(eps);
  ligerdsl_modulated_rms_norm_forward_args_t args = LIGERDSL_MODULATED_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.scale = tensor(scale);
  args.shift = tensor(shift);
  args.y = tensor(y);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::modulated_rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_scale,
                                      const Tensor& d_shift, const Tensor& d_y, const Tensor& x, const Tensor& weight,
                                      const Tensor& scale, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_modulated_rms_norm_backward_desc_t desc = LIGERDSL_MODULATED_RMS_NORM_BACKWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_GEMMA;
  ligerdsl_modulated_rms_norm_backward_args_t args = LIGERDSL_MODULATED_RMS_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.scale = tensor(scale);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  args.d_scale = tensor(d_scale);
  args.d_shift = tensor(d_shift);
  impl_->run(desc, args);
}

void Ops::group_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_group_norm_forward_desc_t desc = LIGERDSL_GROUP_NORM_FORWARD_DESC_INIT;
  desc.eps = static_cast<float>(eps);
  ligerdsl_group_norm_forward_args_t args = LIGERDSL_GROUP_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.bias = tensor(bias);
  args.y = tensor(y);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::group_norm_backward(const NormGradients& out, const Tensor& d_y, const Tensor& x, const Tensor& weight,
                              const Tensor& mean, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_group_norm_backward_desc_t desc = LIGERDSL_GROUP_NORM_BACKWARD_DESC_INIT;
  ligerdsl_group_norm_backward_args_t args = LIGERDSL_GROUP_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.mean = tensor(mean);
  args.rstd = tensor(rstd);
  args.d_x = tensor(out.d_x);
  args.d_weight = tensor(out.d_weight);
  args.d_bias = tensor(out.d_bias);
  impl_->run(desc, args);
}

void Ops::poly_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_poly_norm_forward_desc_t desc = LIGERDSL_POLY_NORM_FORWARD_DESC_INIT;
  desc.eps = static_cast<float>(eps);
  ligerdsl_poly_norm_forward_args_t args = LIGERDSL_POLY_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.bias = tensor(bias);
  args.y = tensor(y);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::poly_norm_backward(const NormGradients& out, const Tensor& d_y, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_poly_norm_backward_desc_t desc = LIGERDSL_POLY_NORM_BACKWARD_DESC_INIT;
  ligerdsl_poly_norm_backward_args_t args = LIGERDSL_POLY_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.rstd = tensor(rstd);
  args.d_x = tensor(out.d_x);
  args.d_weight = tensor(out.d_weight);
  args.d_bias = tensor(out.d_bias);
  impl_->run(desc, args);
}

void Ops::dyt(const Tensor& y, const Tensor& x, const Tensor& alpha, const Tensor& weight, const Tensor& bias) {
  Arguments tensor(impl_->device);
  ligerdsl_dyt_forward_desc_t desc = LIGERDSL_DYT_FORWARD_DESC_INIT;
  ligerdsl_dyt_forward_args_t args = LIGERDSL_DYT_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.alpha = tensor(alpha);
  args.weight = tensor(weight);
  args.bias = tensor(bias);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::dyt_backward(const NormGradients& out, const Tensor& d_alpha, const Tensor& d_y, const Tensor& x,
                       const Tensor& alpha, const Tensor& weight) {
  Arguments tensor(impl_->device);
  ligerdsl_dyt_backward_desc_t desc = LIGERDSL_DYT_BACKWARD_DESC_INIT;
  ligerdsl_dyt_backward_args_t args = LIGERDSL_DYT_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.alpha = tensor(alpha);
  args.weight = tensor(weight);
  args.d_x = tensor(out.d_x);
  args.d_alpha = tensor(d_alpha);
  args.d_weight = tensor(out.d_weight);
  args.d_bias = tensor(out.d_bias);
  impl_->run(desc, args);
}

// Chooses the operation by the order of both operands: nn, nt, tn, tt.
#define TRAIN_PRODUCT(family, FAMILY)                                                            \
  void Ops::family(const Tensor& c, const Factor& a, const Factor& b, float alpha, float beta) { \
    Arguments tensor(impl_->device);                                                             \
    const auto run = [&](auto desc, auto args) {                                                 \
      desc.alpha = alpha;                                                                        \
      desc.beta = beta;                                                                          \
      args.a = tensor(a.tensor);                                                                 \
      args.b = tensor(b.tensor);                                                                 \
      args.c = tensor(c);                                                                        \
      impl_->run(desc, args);                                                                    \
    };                                                                                           \
    if (a.transposed && b.transposed)                                                            \
      run(ligerdsl_##family##_tt_desc_t LIGERDSL_##FAMILY##_TT_DESC_INIT,                        \
          ligerdsl_##family##_tt_args_t LIGERDSL_##FAMILY##_TT_ARGS_INIT);                       \
    else if (a.transposed)                                                                       \
      run(ligerdsl_##family##_tn_desc_t LIGERDSL_##FAMILY##_TN_DESC_INIT,                        \
          ligerdsl_##family##_tn_args_t LIGERDSL_##FAMILY##_TN_ARGS_INIT);                       \
    else if (b.transposed)                                                                       \
      run(ligerdsl_##family##_nt_desc_t LIGERDSL_##FAMILY##_NT_DESC_INIT,                        \
          ligerdsl_##family##_nt_args_t LIGERDSL_##FAMILY##_NT_ARGS_INIT);                       \
    else                                                                                         \
      run(ligerdsl_##family##_nn_desc_t LIGERDSL_##FAMILY##_NN_DESC_INIT,                        \
          ligerdsl_##family##_nn_args_t LIGERDSL_##FAMILY##_NN_ARGS_INIT);                       \
  }
TRAIN_PRODUCT(matmul, MATMUL)
TRAIN_PRODUCT(batched_matmul, BATCHED_MATMUL)
#undef TRAIN_PRODUCT

void Ops::scaled_matmul(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& a_scale,
                        const Tensor& b_scale) {
  Arguments tensor(impl_->device);
  ligerdsl_scaled_matmul_nt_desc_t desc = LIGERDSL_SCALED_MATMUL_NT_DESC_INIT;
  ligerdsl_scaled_matmul_nt_args_t args = LIGERDSL_SCALED_MATMUL_NT_ARGS_INIT;
  args.a = tensor(a);
  args.b = tensor(b);
  args.a_scale = tensor(a_scale);
  args.b_scale = tensor(b_scale);
  args.c = tensor(c);
  impl_->run(desc, args);
}

void Ops::grouped_matmul(const Tensor& c, const Tensor& a, const Factor& b, const Tensor& offsets) {
  Arguments tensor(impl_->device);
  const auto run = [&](auto desc, auto args) {
    args.a = tensor(a);
    args.b = tensor(b.tensor);
    args.offsets = tensor(offsets);
    args.c = tensor(c);
    impl_->run(desc, args);
  };
  if (b.transposed)
    run(ligerdsl_grouped_matmul_nt_desc_t LIGERDSL_GROUPED_MATMUL_NT_DESC_INIT,
        ligerdsl_grouped_matmul_nt_args_t LIGERDSL_GROUPED_MATMUL_NT_ARGS_INIT);
  else
    run(ligerdsl_grouped_matmul_nn_desc_t LIGERDSL_GROUPED_MATMUL_NN_DESC_INIT,
        ligerdsl_grouped_matmul_nn_args_t LIGERDSL_GROUPED_MATMUL_NN_ARGS_INIT);
}

void Ops::grouped_matmul_tn(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets, bool accumulate) {
  Arguments tensor(impl_->device);
  ligerdsl_grouped_matmul_tn_desc_t desc = LIGERDSL_GROUPED_MATMUL_TN_DESC_INIT;
  ligerdsl_grouped_matmul_tn_args_t args = LIGERDSL_GROUPED_MATMUL_TN_ARGS_INIT;
  desc.accumulate = accumulate;
  args.a = tensor(a);
  args.b = tensor(b);
  args.offsets = tensor(offsets);
  args.c = tensor(c);
  impl_->run(desc, args);
}

void Ops::bias_add(const Tensor& y, const Tensor& x, const Tensor& bias) {
  Arguments tensor(impl_->device);
  ligerdsl_bias_add_forward_desc_t desc = LIGERDSL_BIAS_ADD_FORWARD_DESC_INIT;
  ligerdsl_bias_add_forward_args_t args = LIGERDSL_BIAS_ADD_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.bias = tensor(bias);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::bias_add_backward(const Tensor& d_bias, const Tensor& d_y) {
  Arguments tensor(impl_->device);
  ligerdsl_bias_add_backward_desc_t desc = LIGERDSL_BIAS_ADD_BACKWARD_DESC_INIT;
  ligerdsl_bias_add_backward_args_t args = LIGERDSL_BIAS_ADD_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.d_bias = tensor(d_bias);
  impl_->run(desc, args);
}

void Ops::activation(const Tensor& y, const Tensor& x, int kind) {
  Arguments tensor(impl_->device);
  ligerdsl_activation_forward_desc_t desc = LIGERDSL_ACTIVATION_FORWARD_DESC_INIT;
  desc.kind = kind;
  ligerdsl_activation_forward_args_t args = LIGERDSL_ACTIVATION_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::activation_backward(const Tensor& d_x, const Tensor& d_y, const Tensor& x, int kind) {
  Arguments tensor(impl_->device);
  ligerdsl_activation_backward_desc_t desc = LIGERDSL_ACTIVATION_BACKWARD_DESC_INIT;
  desc.kind = kind;
  ligerdsl_activation_backward_args_t args = LIGERDSL_ACTIVATION_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.d_x = tensor(d_x);
  impl_->run(desc, args);
}

void Ops::dropout(const Tensor& y, const Tensor& x, const Tensor& residual, const Draws& draws) {
  Arguments tensor(impl_->device);
  ligerdsl_dropout_forward_desc_t desc = LIGERDSL_DROPOUT_FORWARD_DESC_INIT;
  ligerdsl_dropout_forward_args_t args = LIGERDSL_DROPOUT_FORWARD_ARGS_INIT;
  args.p = draws.p;
  args.seed = draws.seed;
  args.offset = draws.offset;
  args.x = tensor(x);
  args.residual = tensor(residual);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::dropout_backward(const Tensor& d_x, const Tensor& d_y, const Draws& draws) {
  Arguments tensor(impl_->device);
  ligerdsl_dropout_backward_desc_t desc = LIGERDSL_DROPOUT_BACKWARD_DESC_INIT;
  ligerdsl_dropout_backward_args_t args = LIGERDSL_DROPOUT_BACKWARD_ARGS_INIT;
  args.p = draws.p;
  args.seed = draws.seed;
  args.offset = draws.offset;
  args.d_y = tensor(d_y);
  args.d_x = tensor(d_x);
  impl_->run(desc, args);
}

void Ops::geglu(const Tensor& out, const Gated& in) {
  Arguments tensor(impl_->device);
  ligerdsl_geglu_forward_desc_t desc = LIGERDSL_GEGLU_FORWARD_DESC_INIT;
  ligerdsl_geglu_forward_args_t args = LIGERDSL_GEGLU_FORWARD_ARGS_INIT;
  args.gate = tensor(in.gate);
  args.up = tensor(in.up);
  args.gate_up = tensor(in.gate_up);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::geglu_backward(const Gated& d_in, const Tensor& d_out, const Gated& in) {
  Arguments tensor(impl_->device);
  ligerdsl_geglu_backward_desc_t desc = LIGERDSL_GEGLU_BACKWARD_DESC_INIT;
  ligerdsl_geglu_backward_args_t args = LIGERDSL_GEGLU_BACKWARD_ARGS_INIT;
  args.d_out = tensor(d_out);
  args.gate = tensor(in.gate);
  args.up = tensor(in.up);
  args.gate_up = tensor(in.gate_up);
  args.d_gate = tensor(d_in.gate);
  args.d_up = tensor(d_in.up);
  args.d_gate_up = tensor(d_in.gate_up);
  impl_->run(desc, args);
}

void Ops::softmax(const Tensor& y, const Tensor& x, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_forward_desc_t desc = LIGERDSL_SOFTMAX_FORWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  ligerdsl_softmax_forward_args_t args = LIGERDSL_SOFTMAX_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::softmax_backward(const Tensor& d_x, const Tensor& d_y, const Tensor& y, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_backward_desc_t desc = LIGERDSL_SOFTMAX_BACKWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  ligerdsl_softmax_backward_args_t args = LIGERDSL_SOFTMAX_BACKWARD_ARGS_INIT;
  args.y = tensor(y);
  args.d_y = tensor(d_y);
  args.d_x = tensor(d_x);
  impl_->run(desc, args);
}

void Ops::sparsemax(const Tensor& y, const Tensor& x) {
  Arguments tensor(impl_->device);
  ligerdsl_sparsemax_forward_desc_t desc = LIGERDSL_SPARSEMAX_FORWARD_DESC_INIT;
  ligerdsl_sparsemax_forward_args_t args = LIGERDSL_SPARSEMAX_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.y = tensor(y);
  impl_->run(desc, args);
}

void Ops::sparsemax_backward(const Tensor& d_x, const Tensor& d_y, const Tensor& y) {
  Arguments tensor(impl_->device);
  ligerdsl_sparsemax_backward_desc_t desc = LIGERDSL_SPARSEMAX_BACKWARD_DESC_INIT;
  ligerdsl_sparsemax_backward_args_t args = LIGERDSL_SPARSEMAX_BACKWARD_ARGS_INIT;
  args.y = tensor(y);
  args.d_y = tensor(d_y);
  args.d_x = tensor(d_x);
  impl_->run(desc, args);
}

void Ops::cross_entropy_backward(const Tensor& d_logits, const Tensor& d_loss) {
  Arguments tensor(impl_->device);
  ligerdsl_cross_entropy_backward_desc_t desc = LIGERDSL_CROSS_ENTROPY_BACKWARD_DESC_INIT;
  ligerdsl_cross_entropy_backward_args_t args = LIGERDSL_CROSS_ENTROPY_BACKWARD_ARGS_INIT;
  args.d_loss = tensor(d_loss);
  args.d_logits = tensor(d_logits);
  impl_->run(desc, args);
}

namespace {

template <class Args>
Args divergence_args(const Ops::Divergence& d, Args args, Arguments& tensor) {
  args.input = tensor(d.input);
  args.target = tensor(d.target);
  args.loss = tensor(d.loss);
  args.d_input = tensor(d.d_input);
  return args;
}

}  // namespace

void Ops::kl_div(const Divergence& d) {
  Arguments tensor(impl_->device);
  ligerdsl_kl_div_desc_t desc = LIGERDSL_KL_DIV_DESC_INIT;
  ligerdsl_kl_div_args_t args = LIGERDSL_KL_DIV_ARGS_INIT;
  impl_->run(desc, args = divergence_args(d, args, tensor));
}

void Ops::jsd(const Divergence& d, double beta) {
  Arguments tensor(impl_->device);
  ligerdsl_jsd_desc_t desc = LIGERDSL_JSD_DESC_INIT;
  desc.beta = static_cast<float>(beta);
  ligerdsl_jsd_args_t args = LIGERDSL_JSD_ARGS_INIT;
  impl_->run(desc, args = divergence_args(d, args, tensor));
}

void Ops::tvd(const Divergence& d) {
  Arguments tensor(impl_->device);
  ligerdsl_tvd_desc_t desc = LIGERDSL_TVD_DESC_INIT;
  ligerdsl_tvd_args_t args = LIGERDSL_TVD_ARGS_INIT;
  impl_->run(desc, args = divergence_args(d, args, tensor));
}

namespace {

template <class Desc>
Desc shard_desc(const Ops::Shard& s, Desc desc) {
  desc.first_class = s.first;
  desc.total_classes = s.total;
  desc.ignore_index = s.ignored;
  return desc;
}

}  // namespace

void Ops::shard_partials(const Tensor& partials, const Shard& s) {
  Arguments tensor(impl_->device);
  ligerdsl_vocab_parallel_cross_entropy_partials_desc_t desc = LIGERDSL_VOCAB_PARALLEL_CROSS_ENTROPY_PARTIALS_DESC_INIT;
  desc = shard_desc(s, desc);
  desc.with_smoothing = 1;
  ligerdsl_vocab_parallel_cross_entropy_partials_args_t args = LIGERDSL_VOCAB_PARALLEL_CROSS_ENTROPY_PARTIALS_ARGS_INIT;
  args.logits = tensor(s.logits);
  args.labels = tensor(s.labels);
  args.partials = tensor(partials);
  impl_->run(desc, args);
}

void Ops::shard_cross_entropy(const Tensor& loss, const Tensor& d_logits, const Tensor& partials, const Shard& s) {
  Arguments tensor(impl_->device);
  ligerdsl_vocab_parallel_cross_entropy_desc_t desc = LIGERDSL_VOCAB_PARALLEL_CROSS_ENTROPY_DESC_INIT;
  desc = shard_desc(s, desc);
  desc.reduction = LIGERDSL_REDUCTION_MEAN;
  desc.label_smoothing = static_cast<float>(s.smoothing);
  ligerdsl_vocab_parallel_cross_entropy_args_t args = LIGERDSL_VOCAB_PARALLEL_CROSS_ENTROPY_ARGS_INIT;
  args.logits = tensor(s.logits);
  args.labels = tensor(s.labels);
  args.partials = tensor(partials);
  args.loss = tensor(loss);
  args.d_logits = tensor(d_logits);
  impl_->run(desc, args);
}

namespace {

// Sets the options that the head's loss and its backward share.
template <class Desc>
void describe_head(const Ops::LossSettings& settings, Desc* desc) {
  desc->reduction = LIGERDSL_REDUCTION_MEAN;
  desc->ignore_index = settings.ignored;
  desc->label_smoothing = static_cast<float>(settings.smoothing);
  desc->lse_square_scale = static_cast<float>(settings.lse_square_scale);
  desc->softcap = static_cast<float>(settings.softcap);
  desc->temperature = static_cast<float>(settings.temperature);
}
template <class Args>
void pass_head(const Ops::FusedLinearCrossEntropy& c, Arguments& tensor, Args* args) {
  args->x = tensor(c.x);
  args->weight = tensor(c.weight);
  args->bias = tensor(c.bias);
  args->labels = tensor(c.labels);
  args->class_weight = tensor(c.class_weight);
  args->lse = tensor(c.lse);
  args->d_entropy = tensor(c.d_entropy);
  args->d_x = tensor(c.d_x);
  args->d_weight = tensor(c.d_weight);
  args->d_bias = tensor(c.d_bias);
}

}  // namespace

void Ops::fused_linear_cross_entropy(const FusedLinearCrossEntropy& c) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_linear_cross_entropy_desc_t desc = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  describe_head(c.settings, &desc);
  ligerdsl_fused_linear_cross_entropy_args_t args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_ARGS_INIT;
  pass_head(c, tensor, &args);
  args.loss = tensor(c.loss);
  args.z_loss = tensor(c.z_loss);
  args.accuracy = tensor(c.accuracy);
  args.predictions = tensor(c.predictions);
  args.entropy = tensor(c.entropy);
  impl_->run(desc, args);
}

void Ops::fused_linear_cross_entropy_backward(const FusedLinearCrossEntropy& c, const Tensor& d_loss) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_linear_cross_entropy_backward_desc_t desc = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_BACKWARD_DESC_INIT;
  describe_head(c.settings, &desc);
  ligerdsl_fused_linear_cross_entropy_backward_args_t args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_BACKWARD_ARGS_INIT;
  pass_head(c, tensor, &args);
  args.d_loss = tensor(d_loss);
  if (c.d_entropy.data) args.entropy = tensor(c.entropy);
  impl_->run(desc, args);
}

void Ops::fused_linear_jsd(const FusedLinearJsd& j) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_linear_jsd_desc_t desc = LIGERDSL_FUSED_LINEAR_JSD_DESC_INIT;
  desc.beta = static_cast<float>(j.beta);
  desc.temperature = static_cast<float>(j.temperature);
  ligerdsl_fused_linear_jsd_args_t args = LIGERDSL_FUSED_LINEAR_JSD_ARGS_INIT;
  args.x = tensor(j.x);
  args.weight = tensor(j.weight);
  args.target_x = tensor(j.target_x);
  args.target_weight = tensor(j.target_weight);
  args.loss = tensor(j.loss);
  args.d_x = tensor(j.d_x);
  args.d_weight = tensor(j.d_weight);
  impl_->run(desc, args);
}

void Ops::target_counts(const Tensor& counts, const Tensor& labels, const Tensor& class_weight, int64_t ignored) {
  Arguments tensor(impl_->device);
  ligerdsl_target_counts_desc_t desc = LIGERDSL_TARGET_COUNTS_DESC_INIT;
  desc.ignore_index = ignored;
  ligerdsl_target_counts_args_t args = LIGERDSL_TARGET_COUNTS_ARGS_INIT;
  args.labels = tensor(labels);
  args.class_weight = tensor(class_weight);
  args.counts = tensor(counts);
  impl_->run(desc, args);
}

}  // namespace train
