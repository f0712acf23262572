#include "kernels/softmax/sparsemax.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_sparsemax_forward_desc_t& d) {
  namespace op = sparsemax_forward;
  const kernels::SparsemaxOptions options{.cols = d.n_cols, .type = dtype_of(d.dtype)};
  return plan_of(context, op::info(), d, configured(context, kernels::sparsemax_forward_kernel, options),
                 {.rows = size_of_call(op::dim_N)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_sparsemax_backward_desc_t& d) {
  namespace op = sparsemax_backward;
  const kernels::SparsemaxOptions options{.cols = d.n_cols, .type = dtype_of(d.dtype)};
  return plan_of(context, op::info(), d, configured(context, kernels::sparsemax_backward_kernel, options),
                 {.rows = size_of_call(op::dim_N)});
}

}  // namespace ligerdsl::lib
