// float64 gradients of an embedding's tables.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// The gradient of a table [v, h] gathered by `indices`; indices out of range add nothing.
inline Values embedding_gradient_reference(const Values& d_out, const std::vector<int64_t>& indices, int64_t v,
                                           int64_t h) {
  Values out(v * h, 0.0);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= v) continue;
    for (int64_t j = 0; j < h; ++j) out[indices[i] * h + j] += d_out[i * h + j];
  }
  return out;
}

// Returns the gradient of a table of positions [p, h], whose row i mod p was added to row i.
inline Values position_gradient_reference(const Values& d_out, int64_t n, int64_t p, int64_t h) {
  Values out(p * h, 0.0);
  for (int64_t i = 0; i < n * h; ++i) out[i / h % p * h + i % h] += d_out[i];
  return out;
}

}  // namespace ligerdsl::reference
