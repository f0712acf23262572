// A bias added to rows, and its gradient.
#include "kernels/core/elementwise_schedule.h"
#include "kernels/reduce/column_sums.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_bias_add_forward_desc_t& d) {
  namespace op = bias_add_forward;
  return plan_of(context, op::info(), d,
                 configured(context, kernels::bias_add_forward_kernel,
                            {.cols = d.n_cols, .type = dtype_of(d.dtype), .bias_type = dtype_of(d.bias_dtype)}),
                 {.rows = size_of_call(op::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_bias_add_backward_desc_t& d) {
  namespace op = bias_add_backward;
  check_gradient("d_bias_dtype", d.d_bias_dtype, d.dtype, d.accumulate);
  return plan_of(context, op::info(), d,
                 configured(context, kernels::bias_add_backward_kernel,
                            {.cols = d.n_cols,
                             .type = dtype_of(d.dtype),
                             .out_type = dtype_of(d.d_bias_dtype),
                             .accumulate = d.accumulate != 0}),
                 {.rows = size_of_call(op::dim_N)});
}

}  // namespace ligerdsl::lib
