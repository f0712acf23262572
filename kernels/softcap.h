// Soft capping of logits: z = cap tanh(x / cap), dz/dx = 1 - (z / cap)^2.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Up to this one z may be off by 2e-7 of the cap.
inline constexpr double kLargestSmallCap = 64;

class Softcap {
 public:
  Softcap() = default;
  explicit Softcap(const Scalar& cap) : cap_(cap), inverse_(1.0f / cap) {}
  // Of logits in `type`. Under a small cap tiles of 16-bit logits take z = cap - 2 cap / (1 + e^(2 x / cap)), which has
  // a third of the instructions that are right for small and for large arguments of tanh.
  Softcap(const Scalar& cap, bool small, DType type) : Softcap(cap) {
    if (!small || size_of(type) != 2) return;
    constexpr double kTwiceLog2E = 2.8853900817779268;
    rate_ = inverse_ * kTwiceLog2E;
    minus_range_ = cap * -2.0f;
  }

  Scalar operator()(const Scalar& x) const { return cap_ * tanh(x * inverse_); }
  Tile operator()(const Tile& x) const {
    if (rate_.empty()) return cap_ * tanh(x * inverse_);
    return fma(fast_div(1.0f, fast_exp2(x * rate_) + 1.0f), minus_range_, cap_);
  }
  // dz/dx, given z.
  Tile slope(const Tile& z) const {
    Tile t = z * inverse_;
    return fma(-t, t, 1.0f);
  }

 private:
  Scalar cap_, inverse_;
  Scalar rate_, minus_range_;  // of the quick form, else empty
};

}  // namespace ligerdsl::kernels
