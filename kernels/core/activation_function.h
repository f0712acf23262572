// A function f that activations are made of, at the values of an f32 tile.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// As LIGERDSL_ACTIVATION_* counts them.
enum class Activation { gelu_tanh, gelu_erf, silu, relu, relu_squared };

class ActivationAt {
 public:
  ActivationAt(Activation activation, const Tile& u);

  const Tile& value() const { return value_; }  // f(u)
  Tile slope() const;                           // f'(u)
  Tile gradient(const Tile& d) const;           // d f'(u); where ReLU is flat 0, whatever d is

 private:
  Activation activation_;
  Tile u_, value_;
  Tile share_;  // value and gradient are made of it: sigma(w), Phi(-|u|) or max(u, 0)
  Tile bell_;   // gelu_erf: e^(-u^2 / 2)
};

}  // namespace ligerdsl::kernels
