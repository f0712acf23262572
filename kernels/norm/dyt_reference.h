// float64 DyT and its gradients.
#pragma once

#include <cmath>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// weight tanh(alpha x) + bias; `bias` empty: none.
inline Values dyt_reference(const Values& x, double alpha, const Values& weight, const Values& bias) {
  Values y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t j = i % weight.size();
    y[i] = weight[j] * std::tanh(alpha * x[i]) + (bias.empty() ? 0.0 : bias[j]);
  }
  return y;
}

struct DytGradient {
  Values d_x, d_alpha, d_weight, d_bias;
};

inline DytGradient dyt_gradient_reference(const Values& d_y, const Values& x, double alpha, const Values& weight) {
  DytGradient out{Values(x.size()), {0.0}, Values(weight.size(), 0.0), Values(weight.size(), 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t j = i % weight.size();
    const double inverse = 1 / std::cosh(alpha * x[i]), slope = d_y[i] * weight[j] * inverse * inverse;
    out.d_x[i] = alpha * slope;
    out.d_alpha[0] += x[i] * slope;
    out.d_weight[j] += d_y[i] * std::tanh(alpha * x[i]);
    out.d_bias[j] += d_y[i];
  }
  return out;
}

}  // namespace ligerdsl::reference
