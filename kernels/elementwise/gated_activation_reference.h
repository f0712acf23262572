// float64 SwiGLU and GeGLU, and their gradients.
#pragma once

#include "kernels/core/reference_values.h"
#include "kernels/elementwise/activation_reference.h"

namespace ligerdsl::reference {

inline Values swiglu_reference(const Values& gate, const Values& up, double gamma, double delta) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = delta * activation_reference(ActivationKind::silu, gamma * gate[i]) * up[i];
  return out;
}

struct GatedGradient {
  Values d_gate, d_up;
};

inline GatedGradient gated_gradient_reference(ActivationKind kind, const Values& d_out,
                                              const Values& gate, const Values& up, double gamma,
                                              double delta) {
  GatedGradient out{Values(gate.size()), Values(gate.size())};
  for (size_t i = 0; i < gate.size(); ++i) {
    const double u = gamma * gate[i], c = delta * d_out[i];
    out.d_up[i] = c * activation_reference(kind, u);
    out.d_gate[i] = gamma * c * up[i] * activation_slope_reference(kind, u);
  }
  return out;
}

inline GatedGradient swiglu_gradient_reference(const Values& d_out, const Values& gate,
                                               const Values& up, double gamma, double delta) {
  return gated_gradient_reference(ActivationKind::silu, d_out, gate, up, gamma, delta);
}

inline Values geglu_reference(const Values& gate, const Values& up) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = activation_reference(ActivationKind::gelu_tanh, gate[i]) * up[i];
  return out;
}

inline GatedGradient geglu_gradient_reference(const Values& d_out, const Values& gate,
                                              const Values& up) {
  return gated_gradient_reference(ActivationKind::gelu_tanh, d_out, gate, up, 1, 1);
}

}  // namespace ligerdsl::reference
