// RMSNorm and fused_add_rms_norm: the same kernels, with and without the residual.
#include "kernels/norm/rms_norm.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

template <class Desc>
kernels::RmsNormOptions common_options(const Desc& d) {
  kernels::RmsNormOptions options;
  options.cols = d.n_cols;
  options.type = dtype_of(d.dtype);
  options.casting = static_cast<kernels::Casting>(d.casting);
  options.has_weight = d.weight_dtype != 0;
  options.weight_type = dtype_of(d.weight_dtype);
  options.has_offset = d.offset != 0;
  return options;
}

template <class Desc>
kernels::RmsNormOptions forward_options(const Desc& d) {
  kernels::RmsNormOptions options = common_options(d);
  options.with_rstd = d.with_rstd != 0;
  return options;
}

template <class Desc>
kernels::RmsNormOptions backward_options(const Desc& d) {
  if (d.d_weight_dtype && !d.weight_dtype) {
    fail(Status::invalid_argument, "`d_weight_dtype`: expected 0, because there is no weight");
  }
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.weight_dtype, d.accumulate);
  kernels::RmsNormOptions options = common_options(d);
  options.want_d_weight = d.d_weight_dtype != 0;
  options.d_weight_type = dtype_of(d.d_weight_dtype);
  options.accumulate = d.accumulate != 0;
  options.without_d_x = d.without_d_x != 0;
  return options;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_rms_norm_forward_desc_t& d) {
  return plan_of(context, rms_norm_forward::info(), d,
                 configured(context, kernels::rms_norm_forward_kernel, forward_options(d)),
                 {.numbers = {{"eps", d.eps}, {"offset", d.offset}}, .rows = size_of_call(rms_norm_forward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_rms_norm_backward_desc_t& d) {
  check_without_d_x(d.without_d_x, d.d_weight_dtype != 0);
  return plan_of(context, rms_norm_backward::info(), d,
                 configured(context, kernels::rms_norm_backward_kernel, backward_options(d)),
                 {.numbers = {{"offset", d.offset}}, .rows = size_of_call(rms_norm_backward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_fused_add_rms_norm_forward_desc_t& d) {
  return plan_of(
      context, fused_add_rms_norm_forward::info(), d,
      configured(context, kernels::fused_add_rms_norm_forward_kernel, forward_options(d)),
      {.numbers = {{"eps", d.eps}, {"offset", d.offset}}, .rows = size_of_call(fused_add_rms_norm_forward::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_fused_add_rms_norm_backward_desc_t& d) {
  check_without_d_x(d.without_d_x, d.d_weight_dtype != 0, d.with_d_sum);
  kernels::RmsNormOptions options = backward_options(d);
  options.with_d_sum = d.with_d_sum != 0;
  return plan_of(context, fused_add_rms_norm_backward::info(), d,
                 configured(context, kernels::fused_add_rms_norm_backward_kernel, options),
                 {.numbers = {{"offset", d.offset}}, .rows = size_of_call(fused_add_rms_norm_backward::dim_N)});
}

}  // namespace ligerdsl::lib
