// float64 gated matmul, and its gradient.
#pragma once

#include <cstdint>

#include "kernels/core/reference_values.h"
#include "kernels/elementwise/gated_activation_reference.h"
#include "kernels/matmul/matmul_reference.h"

namespace ligerdsl::reference {

struct GatedProduct {
  Values gate_up, out;
};

// Returns gate_up = x weight^T, with gate in columns [0, f) and up in [f, 2f), and f(gate) up.
// x is [rows, k], weight [2 f, k].
inline GatedProduct gated_matmul_reference(ActivationKind kind, const Values& x,
                                           const Values& weight, int64_t rows, int64_t f,
                                           int64_t k) {
  GatedProduct made{
      matmul_reference({.m = rows, .n = 2 * f, .k = k, .transposed_b = true}, x, weight, {}, {}),
      {}};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < f; ++j) {
      const double* row = &made.gate_up[i * 2 * f];
      made.out.push_back(activation_reference(kind, row[j]) * row[f + j]);
    }
  return made;
}

// Returns [rows, 2 f]: d_gate in columns [0, f), d_up in [f, 2 f). d_out is [rows, f].
inline Values gated_matmul_gradient_reference(ActivationKind kind, const Values& d_out,
                                              const Values& gate_up, int64_t rows, int64_t f) {
  Values made;
  for (int64_t i = 0; i < rows; ++i) {
    const auto gate = gate_up.begin() + i * 2 * f, d = d_out.begin() + i * f;
    const GatedGradient row = gated_gradient_reference(
        kind, Values(d, d + f), Values(gate, gate + f), Values(gate + f, gate + 2 * f), 1, 1);
    made.insert(made.end(), row.d_gate.begin(), row.d_gate.end());
    made.insert(made.end(), row.d_up.begin(), row.d_up.end());
  }
  return made;
}

}  // namespace ligerdsl::reference
