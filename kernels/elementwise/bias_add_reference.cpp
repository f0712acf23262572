// float64 bias addition and the gradient of the bias.
#include <cstdint>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns x [n, cols] + bias [cols].
Values bias_reference(Values x, const Values& bias) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  return x;
}

// Returns the column sums [cols] of x [n, cols].
Values column_sums_reference(const Values& x, int64_t cols) {
  Values sums(cols, 0.0);
  for (size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  return sums;
}

}  // namespace

LIGERDSL_REFERENCE(bias_add_forward) {
  return {{"y", {bias_reference(call["x"], call["bias"])}}};
}

LIGERDSL_REFERENCE(bias_add_backward) {
  return {{"d_bias", call.over_rows("d_bias", column_sums_reference(call["d_y"], call.size("F")))}};
}

}  // namespace ligerdsl::reference
