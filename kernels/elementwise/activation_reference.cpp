#include "kernels/elementwise/activation_reference.h"

#include <utility>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

ActivationKind activation_kind(const ReferenceCall& call) {
  return static_cast<ActivationKind>(call.option("kind"));
}

}  // namespace

LIGERDSL_REFERENCE(activation_forward) {
  return {{"y", {activation_reference(activation_kind(call), call["x"])}}};
}

LIGERDSL_REFERENCE(activation_backward) {
  Values d_x = activation_gradient_reference(activation_kind(call), call["d_y"], call["x"]);
  for (size_t i = 0; call.flag("accumulate") && i < d_x.size(); ++i) d_x[i] += call["d_x"][i];
  return {{"d_x", {std::move(d_x)}}};
}

}  // namespace ligerdsl::reference
