// SwiGLU. The fused layout is the same kernel on the two halves of one tensor.
#include "kernels/swiglu.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

// Columns [which * width, (which + 1) * width) of a tensor [n, 2 * width].
OperationPlan::Bindings::Derived half(const char* name, const std::string& memory, int tensor, int which,
                                      int64_t width) {
  return {.name = name,
          .memory = memory + (which ? ", up" : ", gate"),
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.dims[1] = width;
                view.data += which * width * size_of(view.dtype);
                return view;
              },
          .exact = {-1, width}};
}

template <class Desc>
OperationPlan::Bindings multipliers(const Desc& d) {
  OperationPlan::Bindings bindings;
  bindings.numbers = {{"gate_multiplier", d.gate_multiplier}, {"down_multiplier", d.down_multiplier}};
  return bindings;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_swiglu_forward_desc_t& d) {
  OperationPlan::Bindings bindings = multipliers(d);
  bindings.rows = size_of_call(swiglu_forward::dim_N);
  if (d.fused) {
    bindings.views = {half("gate", "gate_up", swiglu_forward::k_gate_up, 0, d.n_cols),
                      half("up", "gate_up", swiglu_forward::k_gate_up, 1, d.n_cols)};
  }
  return plan_of(context, swiglu_forward::info(), d,
                 kernels::swiglu_forward(context->machine(), {.cols = d.n_cols, .type = dtype_of(d.dtype)}),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_swiglu_backward_desc_t& d) {
  OperationPlan::Bindings bindings = multipliers(d);
  bindings.rows = size_of_call(swiglu_backward::dim_N);
  if (d.fused) {
    const char* gradient = d.in_place ? "gate_up" : "d_gate_up";
    bindings.views = {half("gate", "gate_up", swiglu_backward::k_gate_up, 0, d.n_cols),
                      half("up", "gate_up", swiglu_backward::k_gate_up, 1, d.n_cols),
                      half("d_gate", gradient, swiglu_backward::k_d_gate_up, 0, d.n_cols),
                      half("d_up", gradient, swiglu_backward::k_d_gate_up, 1, d.n_cols)};
  }
  return plan_of(context, swiglu_backward::info(), d,
                 kernels::swiglu_backward(context->machine(), {.cols = d.n_cols, .type = dtype_of(d.dtype)}),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
