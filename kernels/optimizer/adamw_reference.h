// float64 step of AdamW.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

struct AdamwState {
  Values p, m, v;
};

inline AdamwState adamw_reference(AdamwState s, const Values& g, double clip, double lr, double beta1, double beta2,
                                  double eps, double weight_decay, int64_t step) {
  const double bias1 = 1.0 - std::pow(beta1, static_cast<double>(step));
  const double bias2 = 1.0 - std::pow(beta2, static_cast<double>(step));
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * clip;
    s.m[i] = beta1 * s.m[i] + (1.0 - beta1) * gradient;
    s.v[i] = beta2 * s.v[i] + (1.0 - beta2) * gradient * gradient;
    s.p[i] -= lr * ((s.m[i] / bias1) / (std::sqrt(s.v[i] / bias2) + eps) + weight_decay * s.p[i]);
  }
  return s;
}

}  // namespace ligerdsl::reference
