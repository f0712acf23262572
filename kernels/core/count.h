// Number of rows, programs, elements or bytes, computed from sizes that a caller chose.
//
// Additions and multiplications saturate at the largest int64_t, which every limit rejects. Launch
// rules are therefore plain arithmetic, and one comparison with a limit finds every overflow. Only
// value() converts a Count to int64_t, so arithmetic that could overflow does not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace ligerdsl::kernels {

class Count {
 public:
  constexpr Count(int64_t value)
      : value_(value) {}  // NOLINT(google-explicit-constructor): numbers are counts

  constexpr int64_t value() const { return value_; }
  // Returns true if the value is the largest one, which represents all larger values too.
  constexpr bool saturated() const { return value_ == std::numeric_limits<int64_t>::max(); }

  // Both operands must be non-negative.
  friend constexpr Count operator+(Count a, Count b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? std::numeric_limits<int64_t>::max()
                                                            : sum;
  }
  friend constexpr Count operator*(Count a, Count b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product)
               ? std::numeric_limits<int64_t>::max()
               : product;
  }
  constexpr Count& operator+=(Count other) { return *this = *this + other; }
  friend constexpr auto operator<=>(Count, Count) = default;

 private:
  int64_t value_;
};

// Returns a / b, rounded up; b > 0. Exact for every a.
constexpr Count ceil_div(Count a, Count b) {
  return a.value() / b.value() + (a.value() % b.value() != 0);
}
constexpr Count round_up(Count a, Count b) {
  return ceil_div(a, b) * b;
}

}  // namespace ligerdsl::kernels
