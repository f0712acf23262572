// SwiGLU and GeGLU. If gate and up are one tensor, the kernels get views of its halves.
#include "kernels/elementwise/gated_activation.h"

#include "kernels/core/elementwise_schedule.h"
#include "lib/abi/ops/halves.h"

namespace ligerdsl::lib {

namespace {

using Bindings = OperationPlan::Bindings;

template <class Desc>
void bind_halves(const Desc& d, int gate_up, Bindings* bindings) {
  if (!d.fused) return;
  bindings->views = {half_row("gate", "gate_up", gate_up, 0, d.n_cols),
                     half_row("up", "gate_up", gate_up, 1, d.n_cols)};
}

template <class Desc>
void bind_halves(const Desc& d, int gate_up, int d_gate_up, Bindings* bindings) {
  if (!d.fused) return;
  bind_halves(d, gate_up, bindings);
  const char* gradient = d.in_place ? "gate_up" : "d_gate_up";
  bindings->views.push_back(half_row("d_gate", gradient, d_gate_up, 0, d.n_cols));
  bindings->views.push_back(half_row("d_up", gradient, d_gate_up, 1, d.n_cols));
}

}  // namespace

void adjust(const ligerdsl_swiglu_forward_desc_t& d, kernels::GatedOptions&, Bindings& bindings) {
  bind_halves(d, swiglu_forward::k_gate_up, &bindings);
}

void adjust(const ligerdsl_swiglu_backward_desc_t& d, kernels::GatedOptions&, Bindings& bindings) {
  bind_halves(d, swiglu_backward::k_gate_up, swiglu_backward::k_d_gate_up, &bindings);
}

void adjust(const ligerdsl_geglu_forward_desc_t& d, kernels::GatedOptions&, Bindings& bindings) {
  bind_halves(d, geglu_forward::k_gate_up, &bindings);
}

void adjust(const ligerdsl_geglu_backward_desc_t& d, kernels::GatedOptions&, Bindings& bindings) {
  bind_halves(d, geglu_backward::k_gate_up, geglu_backward::k_d_gate_up, &bindings);
}

}  // namespace ligerdsl::lib
