// Error gates for results a and references r. The elementwise gate is |a - r| <= atol * max|r| +
// rtol * |r| + floor, where NaN and infinities must agree. The normwise gate limits |a - r|_2 /
// |r|_2.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace ligerdsl::test {

struct Gate {
  double rtol = 0, atol = 0;
  double floor = 0;  // for f16 results: half the spacing of f16's subnormal numbers
};

inline constexpr double kHalfSubnormalF16 = 0x1.001p-25;

// Gate for formulas whose only rounding to `type` is that of the result.
inline Gate gate_e(DType type) {
  if (type == f32) return {1e-5, 1e-6};
  return type == f16 ? Gate{1e-3, 1e-5, kHalfSubnormalF16} : Gate{8e-3, 1e-4};
}
// Gate for formulas that also round an intermediate value to `type`.
inline Gate gate_e2(DType type) {
  if (type == f32) return gate_e(type);
  return type == f16 ? Gate{2e-3, 1e-5, kHalfSubnormalF16} : Gate{1.6e-2, 1e-4};
}
// Gate for gradients that are multiplied by probabilities.
inline Gate gate_p(DType type) {
  if (type == f32) return {1e-5, 1e-7};
  return type == f16 ? Gate{2e-3, 1e-6, kHalfSubnormalF16} : Gate{8e-3, 1e-6};
}
// Normwise gate for sums over `rows` rows.
inline double gate_r(DType type, int64_t rows) {
  if (type == f32) return rows <= 16384 ? 2e-6 : 1e-5;
  return type == f16 ? 1e-3 : 5e-3;
}
// Gate for losses: largest absolute error divided by max(1, |r|).
inline constexpr double kGateLoss = 2e-6;

::testing::AssertionResult close(const Values& actual, const Values& expected, Gate gate);
::testing::AssertionResult close_normwise(const Values& actual, const Values& expected,
                                          double limit);
::testing::AssertionResult close_loss(const Values& actual, const Values& expected,
                                      double limit = kGateLoss);

}  // namespace ligerdsl::test
