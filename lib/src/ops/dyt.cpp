// DyT.
#include "kernels/norm/dyt.h"

#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_dyt_forward_desc_t& d) {
  namespace op = dyt_forward;
  check_bias_dtype(d);
  return plan_of(context, op::info(), d,
                 configured(context, kernels::dyt_forward_kernel,
                            {.cols = d.n_cols,
                             .type = dtype_of(d.dtype),
                             .weight_type = dtype_of(d.weight_dtype),
                             .without_bias = d.bias_dtype == 0}),
                 {.rows = size_of_call(op::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_dyt_backward_desc_t& d) {
  namespace op = dyt_backward;
  const DType gradients = gradients_dtype(
      {{"d_alpha_dtype", d.d_alpha_dtype}, {"d_weight_dtype", d.d_weight_dtype}, {"d_bias_dtype", d.d_bias_dtype}},
      d.weight_dtype, d.accumulate);
  check_without_d_x(d.without_d_x, d.d_alpha_dtype != 0 || d.d_weight_dtype != 0 || d.d_bias_dtype != 0);
  return plan_of(context, op::info(), d,
                 configured(context, kernels::dyt_backward_kernel,
                            {.cols = d.n_cols,
                             .type = dtype_of(d.dtype),
                             .weight_type = dtype_of(d.weight_dtype),
                             .want_d_alpha = d.d_alpha_dtype != 0,
                             .want_d_weight = d.d_weight_dtype != 0,
                             .want_d_bias = d.d_bias_dtype != 0,
                             .d_weight_type = gradients,
                             .accumulate = d.accumulate != 0,
                             .without_d_x = d.without_d_x != 0}),
                 {.rows = size_of_call(op::dim_N)});
}

}  // namespace ligerdsl::lib
