#include "tests/support/gates.h"

#include <cmath>

namespace ligerdsl::test {
namespace {

// Returns true if both numbers are NaN, both are the same infinity, or both are finite.
bool same_kind(double a, double r) {
  if (std::isnan(a) || std::isnan(r)) return std::isnan(a) && std::isnan(r);
  if (std::isinf(a) || std::isinf(r)) return a == r;
  return true;
}

::testing::AssertionResult compare(const Values& actual, const Values& expected,
                                   const std::function<double(double)>& allowed) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " elements, expected " << expected.size();
  }
  size_t worst = 0;
  double worst_ratio = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!same_kind(actual[i], expected[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << actual[i] << ", expected " << expected[i];
    }
    if (!std::isfinite(expected[i])) continue;
    const double ratio = std::fabs(actual[i] - expected[i]) / allowed(expected[i]);
    if (ratio > worst_ratio) worst_ratio = ratio, worst = i;
  }
  if (worst_ratio <= 1.0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << worst << " is " << actual[worst] << ", expected " << expected[worst]
         << ": " << worst_ratio << " times the gate";
}

}  // namespace

::testing::AssertionResult close(const Values& actual, const Values& expected, Gate gate) {
  double scale = 0;
  for (double r : expected) {
    if (std::isfinite(r)) scale = std::max(scale, std::fabs(r));
  }
  if (scale == 0) scale = 1;
  return compare(actual, expected, [=](double r) {
    return gate.atol * scale + gate.rtol * std::fabs(r) + gate.floor;
  });
}

::testing::AssertionResult close_loss(const Values& actual, const Values& expected, double limit) {
  return compare(actual, expected, [=](double r) { return limit * std::max(1.0, std::fabs(r)); });
}

::testing::AssertionResult close_normwise(const Values& actual, const Values& expected,
                                          double limit) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " elements, expected " << expected.size();
  }
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  const double error = std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
  if (error <= limit) return ::testing::AssertionSuccess();  // false for NaN
  return ::testing::AssertionFailure() << "normwise error " << error << ", the gate is " << limit;
}

}  // namespace ligerdsl::test
