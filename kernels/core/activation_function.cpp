// sigma is the logistic function. Phi and phi are the cumulative distribution and the density of
// the standard normal distribution.
//
//   silu           f = u sigma(w), w = u
//   gelu_tanh      f = u sigma(w) = u/2 (1 + tanh(w / 2)), w = 2 k (u + 0.044715 u^3),
//                  k = sqrt(2 / pi), because (1 + tanh z) / 2 = sigma(2 z)
//   gelu_erf       f = u Phi(u)
//   relu           f = max(u, 0)
//   relu_squared   f = max(u, 0)^2
//
// f'(u) is s + u s (1 - s) w'(u) with s = sigma(w), or Phi(u) + u phi(u) for gelu_erf. These forms
// lose no digits to cancellation where f is small. The gradient of ReLU is 0 for u <= 0, even if
// the upstream gradient is infinite or NaN. A NaN u counts as positive, as in PyTorch.
#include "kernels/core/activation_function.h"

namespace ligerdsl::kernels {
namespace {

constexpr double kTanhOuter = 2 * 0.7978845608028654;  // 2 sqrt(2 / pi)
constexpr double kTanhInner = 0.044715;

// Returns min(u^2, 16^2) for gelu_tanh. The bound changes no result, because sigma is 0 or 1 for
// |u| >= 16. An unbounded square could overflow, and infinity times 0 is NaN.
Tile bounded_square(const Tile& u) {
  return min(u * u, 256.0f);
}

// Returns min(|u|, 13) for gelu_erf, because Phi(-13) is below the smallest normal f32.
Tile bounded_magnitude(const Tile& u) {
  return min(abs(u), 13.0f);
}

// e^(-v^2 / 2)
Tile bell(const Tile& v) {
  constexpr double kHalfLog2E = 0.7213475204444817;
  return fast_exp2(v * v * -kHalfLog2E);
}

// Returns Phi(-v) = bell(v) t P(t), t = 1 / (1 + c v). P is the minimax polynomial for 0 <= v <=
// 13, with a relative error of at most 8e-7.
Tile normal_tail(const Tile& v, const Tile& bell) {
  constexpr double kScale = 0.36;
  constexpr double kPolynomial[] = {0.143717423081398,   0.14171086251735687, 0.14005638659000397,
                                    0.02562667801976204, 0.18229344487190247, -0.1807485967874527,
                                    0.047343675047159195};
  Tile t = fast_div(1.0f, fma(v, kScale, 1.0f));
  Tile p = fma(t, kPolynomial[6], kPolynomial[5]);
  for (int i = 4; i >= 0; --i) p = fma(p, t, kPolynomial[i]);
  return bell * t * p;
}

// Returns f'(u) = Phi(u) + u phi(u), computed from f'(-|u|) = Phi(-|u|) - |u| phi(u) and
// f'(|u|) = 1 - f'(-|u|).
Tile gelu_erf_slope(const Tile& u, const Tile& bell, const Tile& tail) {
  constexpr double kInverseRootTwoPi = 0.3989422804014327;
  Tile below = fma(bounded_magnitude(u) * -kInverseRootTwoPi, bell, tail);
  return where(u < 0.0f, below, 1.0f - below);
}

}  // namespace

ActivationAt::ActivationAt(Activation activation, const Tile& u) : activation_(activation), u_(u) {
  switch (activation) {
    case Activation::silu:
      share_ = sigmoid(u);
      value_ = u * share_;
      break;
    case Activation::gelu_tanh:
      share_ = sigmoid(u * fma(bounded_square(u), kTanhOuter * kTanhInner, kTanhOuter));
      value_ = u * share_;
      break;
    case Activation::gelu_erf: {
      Tile v = bounded_magnitude(u);
      bell_ = bell(v);
      share_ = normal_tail(v, bell_);
      value_ = fma(-v, share_, max(u, 0.0f));
      break;
    }
    case Activation::relu:
      value_ = max(u, 0.0f);
      break;
    case Activation::relu_squared:
      share_ = max(u, 0.0f);
      value_ = share_ * share_;
      break;
  }
}

Tile ActivationAt::slope() const {
  switch (activation_) {
    case Activation::silu:
      return fma(value_, 1.0f - share_, share_);
    case Activation::gelu_tanh: {
      Tile inner = fma(bounded_square(u_), 3 * kTanhOuter * kTanhInner, kTanhOuter);  // w'(u)
      return fma(value_ * inner, 1.0f - share_, share_);
    }
    case Activation::gelu_erf:
      return gelu_erf_slope(u_, bell_, share_);
    case Activation::relu:
      return 1.0f - (u_ <= 0.0f).to(f32);
    case Activation::relu_squared:
      break;
  }
  return share_ * 2.0f;
}

Tile ActivationAt::gradient(const Tile& d) const {
  if (activation_ == Activation::relu) return where(u_ <= 0.0f, 0.0f, d);
  if (activation_ == Activation::relu_squared) return where(u_ <= 0.0f, 0.0f, d * slope());
  return d * slope();
}

}  // namespace ligerdsl::kernels
