// Activations without a gate.
#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

template <class Desc>
kernels::ActivationOptions options_of(const Desc& d) {
  return {.cols = d.n_cols, .type = dtype_of(d.dtype), .kind = static_cast<kernels::Activation>(d.kind)};
}

OperationPlan::Bindings bindings_of(int rows) {
  OperationPlan::Bindings bindings;
  bindings.rows = size_of_call(rows);
  return bindings;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_activation_forward_desc_t& d) {
  namespace op = activation_forward;
  return plan_of(context, op::info(), d, configured(context, kernels::activation_forward_kernel, options_of(d)),
                 bindings_of(op::dim_N));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_activation_backward_desc_t& d) {
  namespace op = activation_backward;
  if (d.accumulate && d.in_place) {
    fail(Status::invalid_argument,
         "`in_place`: expected 0 with `accumulate`, got 1; what d_x is added to cannot be d_y or x as well");
  }
  kernels::ActivationOptions options = options_of(d);
  options.accumulate = d.accumulate != 0;
  return plan_of(context, op::info(), d, configured(context, kernels::activation_backward_kernel, options),
                 bindings_of(op::dim_N));
}

}  // namespace ligerdsl::lib
