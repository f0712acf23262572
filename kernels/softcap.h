// Soft capping of logits: z = cap tanh(x / cap), dz/dx = 1 - (z / cap)^2.
#pragma once

#include "kernels/online_softmax.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

class Softcap {
 public:
  Softcap() = default;
  explicit Softcap(const Scalar& cap) : cap_(cap), inverse_(1.0f / cap) {}

  template <class Value>  // Scalar or Tile
  Value operator()(const Value& x) const {
    return cap_ * tanh(x * inverse_);
  }
  // dz/dx, given z.
  Tile slope(const Tile& z) const {
    Tile t = z * inverse_;
    return 1.0f - t * t;
  }

  struct WithSlope {
    Tile z, slope;
  };
  // Both, for gradients of `type`. In those of 16 bits nobody sees the 2.4e-7 by which 2 / (1 + e^-2t) - 1 is off tanh
  // t.
  WithSlope for_gradient(DType type, const Tile& x) const {
    if (type == DType::f32) {
      Tile z = (*this)(x);
      return {z, slope(z)};
    }
    Tile s = fast_div(1.0f, 1.0f + fast_exp2(x * (inverse_ * (-2.0 * kLog2E)))), rest = 4.0f * s;
    return {fma(s, 2.0f * cap_, -cap_), fma(-rest, s, rest)};
  }

 private:
  Scalar cap_, inverse_;
};

}  // namespace ligerdsl::kernels
