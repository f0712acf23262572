#include "kernels/matmul/gated_matmul_reference.h"

#include <utility>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

ActivationKind activation_of(const ReferenceCall& call) {
  return static_cast<ActivationKind>(call.option("activation"));
}

GatedProduct gated_product(const ReferenceCall& call) {
  return gated_matmul_reference(activation_of(call), call["x"], call["weight"], call.size("M"),
                                call.size("F"), call.size("K"));
}

}  // namespace

LIGERDSL_REFERENCE(gated_matmul_nt_backward) {
  auto made = gated_product(call);
  const DType own = call.type("d_gate_up");
  return {{"d_gate_up",
           {gated_matmul_gradient_reference(activation_of(call), call["d_out"], made.gate_up,
                                            call.size("M"), call.size("F")),
            true, own}},
          {"out", {std::move(made.out), true, own}}};
}

LIGERDSL_REFERENCE(gated_matmul_nt) {
  auto made = gated_product(call);
  const DType own = call.type("out");
  return {{"gate_up", {std::move(made.gate_up), true, own}},
          {"out", {std::move(made.out), true, own}}};
}

}  // namespace ligerdsl::reference
