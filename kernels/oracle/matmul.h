// c = f(alpha op(a) op(b) + bias) + beta c; gated products.
#pragma once

#include <cmath>
#include <optional>

#include "kernels/oracle/elementwise.h"
#include "kernels/oracle/values.h"

namespace ligerdsl::oracle {

struct MatmulCase {
  int64_t m, n, k;
  bool transposed_a = false, transposed_b = false;  // a is [k, m], b is [n, k] in memory
  double alpha = 1, beta = 0;
  std::optional<ActivationKind> f;
};

// bias: [n], or empty. c: what it held, [m, n]; read where beta is not 0.
inline Values matmul_oracle(const MatmulCase& p, const Values& a, const Values& b, const Values& bias,
                            const Values& c) {
  Values sums(p.m * p.n, 0.0);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t at = 0; at < p.k; ++at) {
      const double left = a[p.transposed_a ? at * p.m + i : i * p.k + at];
      for (int64_t j = 0; j < p.n; ++j) sums[i * p.n + j] += left * b[p.transposed_b ? j * p.k + at : at * p.n + j];
    }
  for (int64_t i = 0; i < p.m * p.n; ++i) sums[i] = p.alpha * sums[i] + (bias.empty() ? 0 : bias[i % p.n]);
  if (p.f) sums = activation_oracle(*p.f, sums);
  for (int64_t i = 0; p.beta != 0 && i < p.m * p.n; ++i) sums[i] += p.beta * c[i];
  return sums;
}

struct GatedProduct {
  Values gate_up, out;
};

// x [rows, k] by weight [2 f, k]: gate and up side by side, and f(gate) up.
inline GatedProduct gated_matmul_oracle(ActivationKind kind, const Values& x, const Values& weight, int64_t rows,
                                        int64_t f, int64_t k) {
  GatedProduct made{matmul_oracle({.m = rows, .n = 2 * f, .k = k, .transposed_b = true}, x, weight, {}, {}), {}};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < f; ++j) {
      const double* row = &made.gate_up[i * 2 * f];
      made.out.push_back(activation_oracle(kind, row[j]) * row[f + j]);
    }
  return made;
}

// Their gradients side by side, where d_out [rows, f] reaches out.
inline Values gated_matmul_gradient_oracle(ActivationKind kind, const Values& d_out, const Values& gate_up,
                                           int64_t rows, int64_t f) {
  Values made;
  for (int64_t i = 0; i < rows; ++i) {
    const auto gate = gate_up.begin() + i * 2 * f, d = d_out.begin() + i * f;
    const GatedGradient row =
        gated_gradient_oracle(kind, Values(d, d + f), Values(gate, gate + f), Values(gate + f, gate + 2 * f), 1, 1);
    made.insert(made.end(), row.d_gate.begin(), row.d_gate.end());
    made.insert(made.end(), row.d_up.begin(), row.d_up.end());
  }
  return made;
}

}  // namespace ligerdsl::oracle
