// tf32: f32 rounded to 11 bits of significand.
#pragma once

#include <algorithm>
#include <cmath>

namespace ligerdsl::test {

// Returns the nearest tf32 number. Ties round away from zero.
inline float to_tf32(float number) {
  constexpr int kBits = 11, kLeastExponent = -126;  // exponent of the smallest normal number
  if (!std::isfinite(number) || number == 0) return number;
  const int last = std::max(std::ilogb(number), kLeastExponent) + 1 - kBits;
  return static_cast<float>(std::ldexp(std::round(std::ldexp(double{number}, -last)), last));
}

}  // namespace ligerdsl::test
