// float64 sum of rows and a bias, and the bias's gradient.
#pragma once

#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// x [n, cols] plus bias [cols].
inline Values bias_reference(Values x, const Values& bias) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  return x;
}

// [cols], of x [n, cols].
inline Values column_sums_reference(const Values& x, int64_t cols) {
  Values sums(cols, 0.0);
  for (size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  return sums;
}

}  // namespace ligerdsl::reference
