// float64 matmul: c = f(alpha op(a) op(b) + bias) + beta c.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/reference_values.h"
#include "kernels/elementwise/activation_reference.h"

namespace ligerdsl::reference {

struct MatmulCase {
  int64_t m, n, k;
  bool transposed_a = false, transposed_b = false;  // a is [k, m], b is [n, k] in memory
  double alpha = 1, beta = 0;
  std::optional<ActivationKind> f;
};

// `bias` is [n] or empty. `c` [m, n] has the previous values, which are read if beta is not 0.
inline Values matmul_reference(const MatmulCase& p, const Values& a, const Values& b,
                               const Values& bias, const Values& c) {
  Values acc(p.m * p.n, 0.0);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t at = 0; at < p.k; ++at) {
      const double left = a[p.transposed_a ? at * p.m + i : i * p.k + at];
      for (int64_t j = 0; j < p.n; ++j)
        acc[i * p.n + j] += left * b[p.transposed_b ? j * p.k + at : at * p.n + j];
    }
  for (int64_t i = 0; i < p.m * p.n; ++i)
    acc[i] = p.alpha * acc[i] + (bias.empty() ? 0 : bias[i % p.n]);
  if (p.f) acc = activation_reference(*p.f, acc);
  for (int64_t i = 0; p.beta != 0 && i < p.m * p.n; ++i) acc[i] += p.beta * c[i];
  return acc;
}

}  // namespace ligerdsl::reference
