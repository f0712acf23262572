// Soft capping of logits: z = cap tanh(x / cap), dz/dx = 1 - (z / cap)^2.
#pragma once

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

 private:
  Scalar cap_, inverse_;
};

}  // namespace ligerdsl::kernels
