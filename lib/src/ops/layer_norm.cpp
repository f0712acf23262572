// LayerNorm and fused_add_layer_norm: the same kernels, with and without the residual.
#include "kernels/norm/layer_norm.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

template <class Desc>
kernels::LayerNormOptions common_options(const Desc& d) {
  kernels::LayerNormOptions options;
  options.cols = d.n_cols;
  options.type = dtype_of(d.dtype);
  options.weight_type = dtype_of(d.weight_dtype);
  return options;
}

template <class Desc>
kernels::LayerNormOptions forward_options(const Desc& d) {
  kernels::LayerNormOptions options = common_options(d);
  options.with_mean = d.with_mean != 0;
  options.with_rstd = d.with_rstd != 0;
  check_bias_dtype(d);
  options.without_bias = d.bias_dtype == 0;
  return options;
}

template <class Desc>
kernels::LayerNormOptions backward_options(const Desc& d) {
  using Gradients = kernels::LayerNormGradients;
  kernels::LayerNormOptions options = common_options(d);
  options.want_d_weight = d.d_weight_dtype != 0 || d.d_bias_dtype != 0;
  if (options.want_d_weight && d.d_weight_dtype == 0) options.gradients = Gradients::bias;
  if (options.want_d_weight && d.d_bias_dtype == 0) options.gradients = Gradients::weight;
  options.d_weight_type = gradients_dtype(d);
  options.accumulate = d.accumulate != 0;
  options.without_d_x = d.without_d_x != 0;
  return options;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_layer_norm_forward_desc_t& d) {
  return plan_of(context, layer_norm_forward::info(), d,
                 configured(context, kernels::layer_norm_forward_kernel, forward_options(d)),
                 {.numbers = {{"eps", d.eps}}, .rows = size_of_call(layer_norm_forward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_layer_norm_backward_desc_t& d) {
  check_without_d_x(d.without_d_x, d.d_weight_dtype != 0 || d.d_bias_dtype != 0);
  return plan_of(context, layer_norm_backward::info(), d,
                 configured(context, kernels::layer_norm_backward_kernel, backward_options(d)),
                 {.rows = size_of_call(layer_norm_backward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_fused_add_layer_norm_forward_desc_t& d) {
  return plan_of(context, fused_add_layer_norm_forward::info(), d,
                 configured(context, kernels::fused_add_layer_norm_forward_kernel, forward_options(d)),
                 {.numbers = {{"eps", d.eps}}, .rows = size_of_call(fused_add_layer_norm_forward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_fused_add_layer_norm_backward_desc_t& d) {
  check_without_d_x(d.without_d_x, d.d_weight_dtype != 0 || d.d_bias_dtype != 0, d.with_d_sum);
  kernels::LayerNormOptions options = backward_options(d);
  options.with_d_sum = d.with_d_sum != 0;
  return plan_of(context, fused_add_layer_norm_backward::info(), d,
                 configured(context, kernels::fused_add_layer_norm_backward_kernel, options),
                 {.rows = size_of_call(fused_add_layer_norm_backward::dim_N)});
}

}  // namespace ligerdsl::lib
