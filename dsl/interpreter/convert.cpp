#include "interpreter/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ligerdsl::interpreter {
namespace {

static_assert(std::endian::native == std::endian::little);

// Rounds to `digits` significand bits in a format whose smallest normal number is 2^min_exponent.
double round_significand(double value, int digits, int min_exponent, double overflow) {
  if (!std::isfinite(value) || value == 0.0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent)
  const int unit = std::max(exponent, min_exponent + 1) - digits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= overflow ? std::copysign(INFINITY, value) : rounded;
}

uint16_t f16_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const double magnitude = std::fabs(round_to(f16, value));
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | static_cast<uint16_t>(magnitude * 0x1p24);  // zero and subnormal
  int exponent = 0;
  const double significand = std::frexp(magnitude, &exponent);  // [0.5, 1)
  const auto mantissa = static_cast<uint16_t>((significand * 2 - 1) * 1024);
  return sign | static_cast<uint16_t>((exponent + 14) << 10) | mantissa;
}

double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) magnitude = mantissa ? NAN : INFINITY;
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Parameters of an fp8 format.
struct Fp8 {
  explicit Fp8(DType dtype)
      : fraction_bits(dtype == f8e4m3 ? 3 : 2), bias(dtype == f8e4m3 ? 7 : 15) {}
  int least_exponent() const { return 1 - bias; }  // exponent of the smallest normal number
  int fraction_bits, bias;
};

double fp8_value(DType dtype, int code) {
  const Fp8 format(dtype);
  const int size = code & 0x7f, exponent = size >> format.fraction_bits,
            one = 1 << format.fraction_bits;
  const int fraction = size & (one - 1),
            unit = std::max(exponent - 1, 0) + format.least_exponent() - format.fraction_bits;
  double magnitude = std::ldexp(exponent == 0 ? fraction : one + fraction, unit);
  if (dtype == f8e5m2 && size == 0x7c) magnitude = INFINITY;
  if (size > (dtype == f8e5m2 ? 0x7c : 0x7e)) magnitude = NAN;
  return code & 0x80 ? -magnitude : magnitude;
}

// Returns the bits of an fp8 number. A NaN becomes 0x7f. In f8e4m3, a value above the largest
// number becomes the largest number.
uint8_t fp8_code(DType dtype, double value) {
  if (std::isnan(value)) return 0x7f;
  const int sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(round_to(dtype, value));
  if (std::isinf(magnitude)) return static_cast<uint8_t>(sign | 0x7c);
  const Fp8 format(dtype);
  const int exponent = magnitude == 0 ? format.least_exponent()
                                      : std::max(std::ilogb(magnitude), format.least_exponent());
  const auto steps = static_cast<int>(std::ldexp(magnitude, format.fraction_bits - exponent));
  // For a normal number, `steps` includes the implicit leading bit, which adds 1 to the exponent
  // field.
  return static_cast<uint8_t>(
      sign | (((exponent - format.least_exponent()) << format.fraction_bits) + steps));
}

template <class T>
T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <class T>
void store(void* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

}  // namespace

double saturate(DType dtype, double value) {
  const double largest = largest_of(dtype);
  return std::isnan(value) ? value : std::clamp(value, -largest, largest);
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case f8e4m3:
      return round_significand(saturate(dtype, value), 4, -6, INFINITY);
    case f8e5m2:
      return round_significand(value, 3, -14, 0x1p16);
    case f16:
      return round_significand(value, 11, -14, 0x1p16);
    case bf16:
      return round_significand(value, 8, -126, 0x1p128);
    case f32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

double odd_double(int64_t value) {
  const double nearest = static_cast<double>(value);
  const double inward = std::nextafter(nearest, 0.0);
  if (nearest == 0x1p63) return inward;
  const auto back = static_cast<int64_t>(nearest);
  if (back == value || (std::bit_cast<uint64_t>(nearest) & 1) != 0) return nearest;
  return (back < value) == (value > 0) ? std::nextafter(nearest, value > 0 ? INFINITY : -INFINITY)
                                       : inward;
}

int64_t wrap_to(DType dtype, int64_t value) {
  if (dtype == i1) return value & 1;
  const int64_t unused = 64 - 8 * size_of(dtype);
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

double read_float(DType dtype, const void* address) {
  if (is_fp8(dtype)) return fp8_value(dtype, load<uint8_t>(address));
  if (dtype == f16) return f16_value(load<uint16_t>(address));
  if (dtype == bf16) return std::bit_cast<float>(uint32_t{load<uint16_t>(address)} << 16);
  return load<float>(address);
}

void write_float(DType dtype, void* address, double value) {
  if (is_fp8(dtype)) {
    store(address, fp8_code(dtype, value));
  } else if (dtype == f16) {
    store(address, f16_bits(value));
  } else if (dtype == bf16) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(round_to(bf16, value)));
    store(address, static_cast<uint16_t>(std::isnan(value) ? 0x7fc0 : bits >> 16));
  } else {
    store(address, static_cast<float>(value));
  }
}

int64_t read_integer(DType dtype, const void* address) {
  if (dtype == i1) return load<uint8_t>(address) != 0;
  int64_t value = 0;
  std::memcpy(&value, address, static_cast<size_t>(size_of(dtype)));
  return wrap_to(dtype, value);
}

void write_integer(DType dtype, void* address, int64_t value) {
  const int64_t wrapped = wrap_to(dtype, value);
  std::memcpy(address, &wrapped, static_cast<size_t>(size_of(dtype)));
}

}  // namespace ligerdsl::interpreter
