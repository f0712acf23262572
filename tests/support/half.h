// Conversions between float and the bits of bf16 and f16, rounding to nearest even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::test {

inline uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline float from_f16(uint16_t bits) {
  const int sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float s = sign ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? std::nanf("") : s * INFINITY;
  if (exponent == 0) return s * static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(
      static_cast<uint32_t>(sign << 31 | (exponent + 127 - 15) << 23 | fraction << 13));
}

inline uint16_t to_f16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;  // 65520, the midpoint of 65504 and 2^16, rounds to infinity
  int exponent = -20;      // zero is rounded like small numbers
  if (magnitude > 0) std::frexp(magnitude, &exponent);
  const int quantum = std::max(exponent - 11, -24);  // log2 of the last bit's weight
  const float steps = std::nearbyintf(std::ldexp(magnitude, -quantum));
  if (quantum == -24)
    return sign | static_cast<uint16_t>(steps);  // a carry gives the smallest normal number
  // If rounding gives 2048 steps, the carry correctly adds one to the exponent field.
  return sign | static_cast<uint16_t>(((quantum + 24) << 10) + static_cast<int>(steps));
}

// Returns `value` rounded to `type`: bf16, f16 or f32. It is rounded to f32 first, as in kernels.
inline double rounded(double value, DType type) {
  const float f = static_cast<float>(value);
  if (type == bf16) return from_bf16(to_bf16(f));
  if (type == f16) return from_f16(to_f16(f));
  return f;
}

}  // namespace ligerdsl::test
