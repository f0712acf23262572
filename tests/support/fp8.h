// The fp8 formats of the OCP specification. Decoding uses the specification's formula. Encoding
// searches the codes for the nearest number.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace ligerdsl::test {

struct Fp8 {
  int exponent_bits, bias;
  int last;  // code of the largest finite number
};
inline constexpr Fp8 kE4m3{4, 7, 0x7e}, kE5m2{5, 15, 0x7b};

inline double from_fp8(const Fp8& format, uint8_t code) {
  const int fraction_bits = 7 - format.exponent_bits, size = code & 0x7f;
  const int exponent = size >> fraction_bits, fraction = size % (1 << fraction_bits);
  const double significand = std::ldexp(fraction, -fraction_bits);
  double magnitude = exponent == 0 ? std::ldexp(significand, 1 - format.bias)
                                   : std::ldexp(1 + significand, exponent - format.bias);
  if (size > format.last) magnitude = std::numeric_limits<double>::quiet_NaN();
  if (size == 0x7c && format.last == 0x7b) magnitude = std::numeric_limits<double>::infinity();
  return code & 0x80 ? -magnitude : magnitude;
}

// Rounds like cvt.rn.satfinite of PTX: to the nearest number, ties to the even code. Numbers beyond
// the range become the largest finite number with the same sign.
inline uint8_t to_fp8(const Fp8& format, double value) {
  if (std::isnan(value)) return 0x7f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double size = std::fabs(value);
  if (size >= from_fp8(format, static_cast<uint8_t>(format.last)))
    return static_cast<uint8_t>(sign | format.last);
  int best = 0;
  double distance = size;
  for (int code = 1; code <= format.last; ++code) {
    const double here = std::fabs(from_fp8(format, static_cast<uint8_t>(code)) - size);
    if (here > distance) break;
    if (here == distance && code % 2 != 0) continue;
    distance = here;
    best = code;
  }
  return static_cast<uint8_t>(sign | best);
}

}  // namespace ligerdsl::test
