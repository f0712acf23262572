// Activation functions f and their derivatives, evaluated at the elements of an f32 tile.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Activations, in the order of the constants LIGERDSL_ACTIVATION_*.
enum class Activation { gelu_tanh, gelu_erf, silu, relu, relu_squared };

class ActivationAt {
 public:
  ActivationAt(Activation activation, const Tile& u);

  const Tile& value() const { return value_; }  // f(u)
  Tile slope() const;                           // f'(u)
  Tile gradient(const Tile& d) const;  // d f'(u); 0 where ReLU is 0, even if d is infinite or NaN

 private:
  Activation activation_;
  Tile u_, value_;
  Tile share_;  // common term of value and slope: sigma(w), Phi(-|u|) or max(u, 0)
  Tile bell_;   // gelu_erf: e^(-u^2 / 2)
};

}  // namespace ligerdsl::kernels
