// PolyNorm.
#include "kernels/norm/poly_norm.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_poly_norm_forward_desc_t& d) {
  namespace op = poly_norm_forward;
  return plan_of(context, op::info(), d,
                 configured(context, kernels::poly_norm_forward_kernel,
                            {.cols = d.n_cols,
                             .type = dtype_of(d.dtype),
                             .weight_type = dtype_of(d.weight_dtype),
                             .with_rstd = d.with_rstd != 0}),
                 {.numbers = {{"eps", d.eps}}, .rows = size_of_call(op::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_poly_norm_backward_desc_t& d) {
  namespace op = poly_norm_backward;
  return plan_of(context, op::info(), d,
                 configured(context, kernels::poly_norm_backward_kernel,
                            {.cols = d.n_cols,
                             .type = dtype_of(d.dtype),
                             .weight_type = dtype_of(d.weight_dtype),
                             .want_d_weight = d.d_weight_dtype != 0,
                             .want_d_bias = d.d_bias_dtype != 0,
                             .d_weight_type = gradients_dtype(d),
                             .accumulate = d.accumulate != 0}),
                 {.rows = size_of_call(op::dim_N)});
}

}  // namespace ligerdsl::lib
