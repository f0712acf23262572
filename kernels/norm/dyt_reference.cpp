// float64 DyT and its gradients.
#include <cmath>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns weight tanh(alpha x) + bias. `bias` may be empty.
Values dyt_reference(const Values& x, double alpha, const Values& weight, const Values& bias) {
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

DytGradient dyt_gradient_reference(const Values& d_y, const Values& x, double alpha,
                                   const Values& weight) {
  DytGradient out{Values(x.size()), {0.0}, Values(weight.size(), 0.0), Values(weight.size(), 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t j = i % weight.size();
    const double inverse = 1 / std::cosh(alpha * x[i]),
                 slope = d_y[i] * weight[j] * inverse * inverse;
    out.d_x[i] = alpha * slope;
    out.d_alpha[0] += x[i] * slope;
    out.d_weight[j] += d_y[i] * std::tanh(alpha * x[i]);
    out.d_bias[j] += d_y[i];
  }
  return out;
}

}  // namespace

LIGERDSL_REFERENCE(dyt_forward) {
  return {{"y", {dyt_reference(call["x"], call["alpha"][0], call["weight"], call["bias"])}}};
}

LIGERDSL_REFERENCE(dyt_backward) {
  const auto g = dyt_gradient_reference(call["d_y"], call["x"], call["alpha"][0], call["weight"]);
  Expected expected = {{"d_x", {g.d_x}}};
  if (call.has("d_alpha")) expected["d_alpha"] = call.over_rows("d_alpha", g.d_alpha);
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.d_weight);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.d_bias);
  return expected;
}

}  // namespace ligerdsl::reference
