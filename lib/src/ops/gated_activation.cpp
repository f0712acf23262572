// SwiGLU and GeGLU. The fused layout is the same kernel on the two halves of one tensor.
#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/halves.h"

namespace ligerdsl::lib {

namespace {

using Bindings = OperationPlan::Bindings;

Bindings forward_bindings(int rows, bool fused, int gate_up, int64_t width) {
  Bindings bindings;
  bindings.rows = size_of_call(rows);
  if (fused) {
    bindings.views = {half_row("gate", "gate_up", gate_up, 0, width), half_row("up", "gate_up", gate_up, 1, width)};
  }
  return bindings;
}

Bindings backward_bindings(int rows, bool fused, bool in_place, int gate_up, int d_gate_up, int64_t width) {
  Bindings bindings = forward_bindings(rows, fused, gate_up, width);
  if (fused) {
    const char* gradient = in_place ? "gate_up" : "d_gate_up";
    bindings.views.push_back(half_row("d_gate", gradient, d_gate_up, 0, width));
    bindings.views.push_back(half_row("d_up", gradient, d_gate_up, 1, width));
  }
  return bindings;
}

template <class Desc>
Bindings with_multipliers(Bindings bindings, const Desc& d) {
  bindings.numbers = {{"gate_multiplier", d.gate_multiplier}, {"down_multiplier", d.down_multiplier}};
  return bindings;
}

template <class Desc>
kernels::GatedOptions options_of(const Desc& d) {
  return {.cols = d.n_cols, .type = dtype_of(d.dtype)};
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_swiglu_forward_desc_t& d) {
  namespace op = swiglu_forward;
  return plan_of(context, op::info(), d, configured(context, kernels::swiglu_forward_kernel, options_of(d)),
                 with_multipliers(forward_bindings(op::dim_N, d.fused, op::k_gate_up, d.n_cols), d));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_swiglu_backward_desc_t& d) {
  namespace op = swiglu_backward;
  return plan_of(
      context, op::info(), d, configured(context, kernels::swiglu_backward_kernel, options_of(d)),
      with_multipliers(backward_bindings(op::dim_N, d.fused, d.in_place, op::k_gate_up, op::k_d_gate_up, d.n_cols), d));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_geglu_forward_desc_t& d) {
  namespace op = geglu_forward;
  return plan_of(context, op::info(), d, configured(context, kernels::geglu_forward_kernel, options_of(d)),
                 forward_bindings(op::dim_N, d.fused, op::k_gate_up, d.n_cols));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_geglu_backward_desc_t& d) {
  namespace op = geglu_backward;
  return plan_of(context, op::info(), d, configured(context, kernels::geglu_backward_kernel, options_of(d)),
                 backward_bindings(op::dim_N, d.fused, d.in_place, op::k_gate_up, op::k_d_gate_up, d.n_cols));
}

}  // namespace ligerdsl::lib
