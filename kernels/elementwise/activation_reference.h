// float64 activation functions and their derivatives.
#pragma once

#include <cmath>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

inline double sigmoid_reference(double u) {
  return u >= 0 ? 1.0 / (1.0 + std::exp(-u)) : std::exp(u) / (1.0 + std::exp(u));
}

// Normal distribution function, without cancellation for u << 0, and density.
inline double normal_cdf_reference(double u) {
  return 0.5 * std::erfc(-u * std::sqrt(0.5));
}
inline double normal_density_reference(double u) {
  return std::exp(-0.5 * u * u) / std::sqrt(2 * 3.14159265358979323846);
}

// Returns (1 + tanh(z)) / 2 of GELU's tanh form, without cancellation for z << 0.
inline double gelu_share_reference(double a) {
  return sigmoid_reference(2 * std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a));
}

enum class ActivationKind { gelu_tanh, gelu_erf, silu, relu, relu_squared };

// Returns f(u).
inline double activation_reference(ActivationKind kind, double u) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return u * gelu_share_reference(u);
    case ActivationKind::gelu_erf:
      return u * normal_cdf_reference(u);
    case ActivationKind::silu:
      return u * sigmoid_reference(u);
    case ActivationKind::relu:
      return u <= 0 ? 0 : u;
    case ActivationKind::relu_squared:
      break;
  }
  return u <= 0 ? 0 : u * u;
}

// Returns f'(u). ReLU has f'(0) = 0.
inline double activation_slope_reference(ActivationKind kind, double u) {
  const double k = std::sqrt(2 / 3.14159265358979323846);
  switch (kind) {
    case ActivationKind::gelu_tanh: {
      const double share = gelu_share_reference(u),
                   square = 4 * share * (1 - share);  // 1 - tanh(z)^2
      return share + 0.5 * u * square * k * (1 + 3 * 0.044715 * u * u);
    }
    case ActivationKind::gelu_erf:
      return normal_cdf_reference(u) + u * normal_density_reference(u);
    case ActivationKind::silu: {
      const double s = sigmoid_reference(u);
      return s + u * s * (1 - s);
    }
    case ActivationKind::relu:
      return u <= 0 ? 0 : 1;
    case ActivationKind::relu_squared:
      break;
  }
  return u <= 0 ? 0 : 2 * u;
}

inline Values activation_reference(ActivationKind kind, const Values& x) {
  Values y(x.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = activation_reference(kind, x[i]);
  return y;
}

// Returns d_y f'(x), or 0 where ReLU is flat, even if d_y is not finite.
inline Values activation_gradient_reference(ActivationKind kind, const Values& d_y,
                                            const Values& x) {
  const bool flat = kind == ActivationKind::relu || kind == ActivationKind::relu_squared;
  Values d_x(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    d_x[i] = flat && x[i] <= 0 ? 0 : d_y[i] * activation_slope_reference(kind, x[i]);
  return d_x;
}

}  // namespace ligerdsl::reference
