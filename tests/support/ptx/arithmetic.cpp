// Instructions that only compute, by opcode. Integers wrap, and integer division by zero is an
// error. f32 follows IEEE with one rounding per instruction, and keeps denormals except with .ftz.
// Instructions with .approx give the exact result rounded to f32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>

#include "tests/support/fp8.h"
#include "tests/support/half.h"
#include "tests/support/ptx/program.h"
#include "tests/support/tf32.h"

namespace ligerdsl::test::ptx {
namespace {

using Table = std::unordered_map<std::string, Pure>;

template <class T>
T as(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else
    return static_cast<T>(bits);
}

template <class T>
uint64_t bits(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

// Returns the maximum or minimum. As in PTX, -0 is less than +0, and without .NaN a number is
// preferred to a NaN.
template <bool kMax, bool kNan>
float extreme(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    if (kNan || (std::isnan(a) && std::isnan(b))) return std::numeric_limits<float>::quiet_NaN();
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == kMax ? b : a;
  return (a < b) == kMax ? b : a;
}

uint64_t bf16_bits(uint64_t a) {
  return std::isnan(as<float>(a)) ? 0x7fff : to_bf16(as<float>(a));
}

uint64_t f16_bits(uint64_t a) {
  return std::isnan(as<float>(a)) ? 0x7fff : to_f16(as<float>(a));
}

// Returns the bits of the value rounded to f32 by round-to-odd. A second rounding to bf16 or f16
// then gives the same result as a single rounding.
uint64_t rounded_to_odd(long double exact) {
  const float near = static_cast<float>(exact);
  uint64_t result = bits(near);
  if (near != exact)
    result = (result - (std::abs(static_cast<long double>(near)) > std::abs(exact))) | 1;
  return result;
}
template <class T>
uint64_t odd_bits(uint64_t a) {
  return rounded_to_odd(as<T>(a));
}

template <class T>
void divisible(T a, T b) {
  if (b == 0) throw std::runtime_error("division by zero");
  if (std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1)) {
    throw std::runtime_error("the quotient does not fit the type");
  }
}

// UNARY, BINARY and COMPARE make a table entry from an expression of the operands a and b of type
// T. FLOATS does this for operands that kValue converts to float.
#define UNARY(expression)                            \
  {                                                  \
    [](uint64_t x, uint64_t, uint64_t) -> uint64_t { \
      const T a = as<T>(x);                          \
      return bits<T>(static_cast<T>(expression));    \
    },                                               \
        1                                            \
  }
#define BINARY(expression)                             \
  {                                                    \
    [](uint64_t x, uint64_t y, uint64_t) -> uint64_t { \
      const T a = as<T>(x), b = as<T>(y);              \
      return bits<T>(static_cast<T>(expression));      \
    },                                                 \
        2                                              \
  }
#define FLOATS(expression)                             \
  {                                                    \
    [](uint64_t x, uint64_t y, uint64_t) -> uint64_t { \
      const float a = kValue(x), b = kValue(y);        \
      return expression;                               \
    },                                                 \
        2                                              \
  }
#define COMPARE(expression)                            \
  {                                                    \
    [](uint64_t x, uint64_t y, uint64_t) -> uint64_t { \
      const T a = as<T>(x), b = as<T>(y);              \
      return expression;                               \
    },                                                 \
        2                                              \
  }

template <class T>
void add_integer(Table& t, const std::string& type) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned kBits = sizeof(T) * 8;
  t["add." + type] = BINARY(static_cast<U>(a) + static_cast<U>(b));
  t["sub." + type] = BINARY(static_cast<U>(a) - static_cast<U>(b));
  t["mul.lo." + type] = BINARY(static_cast<U>(a) * static_cast<U>(b));
  // The full result needs a type twice as wide.
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  t["mul.hi." + type] = BINARY((static_cast<Wide>(a) * static_cast<Wide>(b)) >> kBits);
  t["mad.lo." + type] = {
      [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t { return static_cast<U>(a * b + c); }, 3};
  t["min." + type] = BINARY(std::min(a, b));
  t["max." + type] = BINARY(std::max(a, b));
  if constexpr (std::is_same_v<T, int32_t>) {
    t["min.relu.s32"] = BINARY(std::max(std::min(a, b), 0));
    t["max.relu.s32"] = BINARY(std::max({a, b, 0}));
  }
  t["neg." + type] = UNARY(U{0} - static_cast<U>(a));
  t["div." + type] = BINARY((divisible(a, b), a / b));
  t["rem." + type] = BINARY((divisible(a, b), a % b));
  t["shr." + type] = {
      [](uint64_t x, uint64_t n, uint64_t) -> uint64_t {
        const uint32_t by = as<uint32_t>(n);
        if (by >= kBits)
          return bits<T>(std::is_signed_v<T> && as<T>(x) < 0 ? static_cast<T>(-1) : T{0});
        return bits<T>(static_cast<T>(as<T>(x) >> by));
      },
      2};
  t["setp.lt." + type] = COMPARE(a < b);
  t["setp.le." + type] = COMPARE(a <= b);
  t["setp.gt." + type] = COMPARE(a > b);
  t["setp.ge." + type] = COMPARE(a >= b);
  t["setp.eq." + type] = COMPARE(a == b);
  t["setp.ne." + type] = COMPARE(a != b);
  t["inc." + type] = BINARY(a >= b ? T{0} : static_cast<T>(a + 1));  // for atomics only
  t["cvt.rn.bf16." + type] = {
      [](uint64_t a, uint64_t, uint64_t) { return bf16_bits(odd_bits<T>(a)); }, 1};
  t["cvt.rn.f16." + type] = {
      [](uint64_t a, uint64_t, uint64_t) { return f16_bits(odd_bits<T>(a)); }, 1};
  t["cvt.rn.f32." + type] = {
      [](uint64_t a, uint64_t, uint64_t) { return bits(static_cast<float>(as<T>(a))); }, 1};
}

template <class T>
void add_bits(Table& t, const std::string& type) {
  t["and." + type] = BINARY(a & b);
  t["or." + type] = BINARY(a | b);
  t["xor." + type] = BINARY(a ^ b);
  t["exch." + type] = BINARY((static_cast<void>(a), b));                     // for atomics only
  t["cas." + type] = {[](uint64_t old, uint64_t expected, uint64_t value) {  // for atomics only
                        return bits<T>(as<T>(old) == as<T>(expected) ? as<T>(value) : as<T>(old));
                      },
                      3};
  t["not." + type] = UNARY(~a);
  t["shl." + type] = {[](uint64_t x, uint64_t n, uint64_t) -> uint64_t {
                        return as<uint32_t>(n) >= sizeof(T) * 8
                                   ? 0
                                   : bits<T>(static_cast<T>(as<T>(x) << as<uint32_t>(n)));
                      },
                      2};
  t["setp.eq." + type] = COMPARE(a == b);
  t["setp.ne." + type] = COMPARE(a != b);
  const Pure select = {[](uint64_t a, uint64_t b, uint64_t p) { return bits<T>(as<T>(p ? a : b)); },
                       3};
  t["selp." + type] = select;
  if (type == "b32") t["selp.f32"] = select;
}

template <class T, class From>
constexpr Pure kConvert = {
    [](uint64_t a, uint64_t, uint64_t) { return bits<T>(static_cast<T>(as<From>(a))); }, 1};

// Extends a byte to the register's width by its sign or by zeros, depending on T.
template <class T>
constexpr Pure kByte = {
    [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(int64_t{as<T>(a)}); }, 1};

template <class T>
void add_conversions_to(Table& t, const std::string& type) {
  t["cvt." + type + ".s8"] = kConvert<T, int8_t>;
  t["cvt." + type + ".u8"] = kConvert<T, uint8_t>;
  t["cvt." + type + ".s16"] = kConvert<T, int16_t>;
  t["cvt." + type + ".u16"] = kConvert<T, uint16_t>;
  t["cvt." + type + ".s32"] = kConvert<T, int32_t>;
  t["cvt." + type + ".u32"] = kConvert<T, uint32_t>;
  t["cvt." + type + ".s64"] = kConvert<T, int64_t>;
  t["cvt." + type + ".u64"] = kConvert<T, uint64_t>;
}

// Returns four bytes of the eight in (b, a). Digit i of the selector chooses byte i. If the highest
// bit of the digit is set, byte i consists of copies of the chosen byte's sign.
uint64_t permuted(uint64_t a, uint64_t b, uint64_t selector) {
  const uint64_t source = (b << 32) | as<uint32_t>(a);
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t digit = selector >> (4 * i), byte = source >> (8 * (digit & 7)) & 0xff;
    result |= (digit & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * i);
  }
  return result;
}

// Returns the sign-extended field of `length` bits from bit `at` on. Bits beyond the operand equal
// its sign bit.
template <class T>
uint64_t signed_field(uint64_t a, uint64_t at, uint64_t length) {
  constexpr uint64_t kHighest = sizeof(T) * 8 - 1;
  at &= 255, length &= 255;
  if (length == 0) return 0;
  const auto bit = [&](uint64_t i) { return a >> std::min(i, kHighest) & 1; };
  uint64_t field = 0;
  for (uint64_t i = 0; i <= kHighest; ++i) field |= bit(at + std::min(i, length - 1)) << i;
  return field;
}

void add_wide(Table& t) {
  t["mul.wide.u16"] = {
      [](uint64_t a, uint64_t b, uint64_t) { return uint64_t{as<uint16_t>(a)} * as<uint16_t>(b); },
      2};
  t["mul.wide.s16"] = {
      [](uint64_t a, uint64_t b, uint64_t) { return bits(as<int16_t>(a) * as<int16_t>(b)); }, 2};
  t["mul.wide.u32"] = {
      [](uint64_t a, uint64_t b, uint64_t) { return uint64_t{as<uint32_t>(a)} * as<uint32_t>(b); },
      2};
  t["mul.wide.s32"] = {[](uint64_t a, uint64_t b, uint64_t) {
                         return static_cast<uint64_t>(int64_t{as<int32_t>(a)} * as<int32_t>(b));
                       },
                       2};
  t["bfe.u32"] = {[](uint64_t a, uint64_t at, uint64_t length) -> uint64_t {
                    at &= 255, length &= 255;
                    return at >= 32 ? 0
                                    : (as<uint32_t>(a) >> at) &
                                          (length >= 32 ? 0xffffffffu : (1u << length) - 1);
                  },
                  3};
  t["bfe.u64"] = {
      [](uint64_t a, uint64_t at, uint64_t length) -> uint64_t {
        at &= 255, length &= 255;
        return at >= 64 ? 0
                        : (a >> at) & (length >= 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1);
      },
      3};
  t["bfe.s32"] = {[](uint64_t a, uint64_t b, uint64_t c) { return signed_field<int32_t>(a, b, c); },
                  3};
  t["bfe.s64"] = {[](uint64_t a, uint64_t b, uint64_t c) { return signed_field<int64_t>(a, b, c); },
                  3};
  t["shf.l.wrap.b32"] = {[](uint64_t low, uint64_t high, uint64_t n) -> uint64_t {
                           return (((high << 32) | as<uint32_t>(low)) << (n & 31)) >> 32 &
                                  0xffffffffu;
                         },
                         3};
  t["shf.r.wrap.b32"] = {[](uint64_t low, uint64_t high, uint64_t n) -> uint64_t {
                           return ((high << 32) | as<uint32_t>(low)) >> (n & 31) & 0xffffffffu;
                         },
                         3};
  t["prmt.b32"] = {[](uint64_t a, uint64_t b, uint64_t c) { return permuted(a, b, c); }, 3};
  t["prmt.b32.f4e"] = {[](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                         const uint64_t pair =
                             as<uint32_t>(b) * (uint64_t{1} << 32) + as<uint32_t>(a);
                         return as<uint32_t>(pair >> (8 * (c & 3)));
                       },
                       3};
}

void add_predicates(Table& t) {
  t["and.pred"] = {[](uint64_t a, uint64_t b, uint64_t) { return a & b & 1; }, 2};
  t["or.pred"] = {[](uint64_t a, uint64_t b, uint64_t) { return (a | b) & 1; }, 2};
  t["xor.pred"] = {[](uint64_t a, uint64_t b, uint64_t) { return (a ^ b) & 1; }, 2};
  t["popc.b32"] = {[](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                     return static_cast<uint64_t>(std::popcount(as<uint32_t>(a)));
                   },
                   1};
  t["not.pred"] = {[](uint64_t a, uint64_t, uint64_t) { return ~a & 1; }, 1};
}

template <float (*kValue)(uint64_t)>
void add_comparisons(Table& t, const std::string& type) {
  t["setp.lt." + type] = FLOATS(a < b);
  t["setp.le." + type] = FLOATS(a <= b);
  t["setp.gt." + type] = FLOATS(a > b);
  t["setp.ge." + type] = FLOATS(a >= b);
  t["setp.eq." + type] = FLOATS(a == b);
  t["setp.ne." + type] = FLOATS(a < b || a > b);  // false with a NaN, like all ordered comparisons
  t["setp.ltu." + type] = FLOATS(!(a >= b));
  t["setp.leu." + type] = FLOATS(!(a > b));
  t["setp.gtu." + type] = FLOATS(!(a <= b));
  t["setp.geu." + type] = FLOATS(!(a < b));
  t["setp.equ." + type] = FLOATS(!(a < b || a > b));
  t["setp.neu." + type] = FLOATS(!(a == b));
  t["setp.num." + type] = FLOATS(!std::isnan(a) && !std::isnan(b));
  t["setp.nan." + type] = FLOATS(std::isnan(a) || std::isnan(b));
}

float f16_value(uint64_t a) {
  return from_f16(as<uint16_t>(a));
}

float bf16_value(uint64_t a) {
  return from_bf16(as<uint16_t>(a));
}

void add_float(Table& t) {
  using T = float;
  t["add.f32"] = t["add.rn.f32"] = BINARY(a + b);
  t["sub.f32"] = t["sub.rn.f32"] = BINARY(a - b);
  t["mul.f32"] = t["mul.rn.f32"] = BINARY(a * b);
  t["div.rn.f32"] = BINARY(a / b);
  t["div.approx.f32"] = t["div.full.f32"] = BINARY(a / b);
  t["rcp.rn.f32"] = t["rcp.approx.f32"] = UNARY(1.0f / a);
  t["rcp.approx.ftz.f32"] = UNARY(flushed(1.0f / flushed(a)));
  t["sqrt.rn.f32"] = t["sqrt.approx.f32"] = UNARY(std::sqrt(a));
  t["rsqrt.approx.f32"] = UNARY(1.0 / std::sqrt(static_cast<double>(a)));
  t["rsqrt.approx.ftz.f32"] =
      UNARY(flushed(static_cast<float>(1.0 / std::sqrt(static_cast<double>(flushed(a))))));
  t["sqrt.approx.ftz.f32"] = UNARY(flushed(std::sqrt(flushed(a))));
  t["tanh.approx.f32"] = UNARY(std::tanh(static_cast<double>(a)));
  t["ex2.approx.f32"] = UNARY(std::exp2(static_cast<double>(a)));
  t["ex2.approx.ftz.f32"] =
      UNARY(flushed(static_cast<float>(std::exp2(static_cast<double>(flushed(a))))));
  t["lg2.approx.f32"] = UNARY(std::log2(static_cast<double>(a)));
  t["lg2.approx.ftz.f32"] = UNARY(std::log2(static_cast<double>(flushed(a))));
  t["cvt.rmi.f32.f32"] = UNARY(std::floor(a));
  t["cvt.rpi.f32.f32"] = UNARY(std::ceil(a));
  t["cvt.rzi.f32.f32"] = UNARY(std::trunc(a));
  t["cvt.rni.f32.f32"] = UNARY(std::nearbyint(a));
  t["neg.f32"] = UNARY(-a);
  t["cvta.param.u64"] = {[](uint64_t a, uint64_t, uint64_t) { return a; },
                         1};  // parameters are host memory
  t["abs.f32"] = UNARY(std::fabs(a));
  t["copysign.f32"] = BINARY(std::copysign(b, a));  // sign of a, magnitude of b
  t["max.f32"] = BINARY((extreme<true, false>(a, b)));
  t["min.f32"] = BINARY((extreme<false, false>(a, b)));
  t["max.NaN.f32"] = BINARY((extreme<true, true>(a, b)));
  t["min.NaN.f32"] = BINARY((extreme<false, true>(a, b)));
  t["fma.rn.f32"] = {[](uint64_t a, uint64_t b, uint64_t c) {
                       return bits(std::fma(as<float>(a), as<float>(b), as<float>(c)));
                     },
                     3};
}

// Returns the value rounded towards zero. Values out of range become the nearest limit. NaN becomes
// the least number of a 64-bit type, and 0 in other types.
template <class Integer, float (*kValue)(uint64_t)>
uint64_t truncated(uint64_t a, uint64_t, uint64_t) {
  using Limits = std::numeric_limits<Integer>;
  const double value = std::trunc(static_cast<double>(kValue(a)));
  if (std::isnan(value)) return bits(sizeof(Integer) == 8 ? Limits::min() : Integer{0});
  if (value >= static_cast<double>(Limits::max())) return bits(Limits::max());
  return bits(value <= static_cast<double>(Limits::min()) ? Limits::min()
                                                          : static_cast<Integer>(value));
}

// Returns a b + c rounded once to 16 bits. The multiplication is exact in double. The addition is
// rounded to odd, so that the later rounding to 16 bits is correct.
template <float (*kValue)(uint64_t), uint64_t (*kBits)(uint64_t)>
uint64_t fused_half(uint64_t x, uint64_t y, uint64_t z) {
  const double product = static_cast<double>(kValue(x)) * kValue(y), addend = kValue(z),
               sum = product + addend;
  if (!std::isfinite(sum)) return kBits(bits(static_cast<float>(sum)));
  const double added = sum - product, lost = (product - (sum - added)) + (addend - added);
  const bool even = (std::bit_cast<uint64_t>(sum) & 1) == 0;
  return kBits(rounded_to_odd(
      lost != 0 && even ? std::nextafter(sum, lost > 0 ? INFINITY : -INFINITY) : sum));
}

// Adds or multiplies in f32 and then rounds to 16 bits. A 16-bit type has p <= 11 bits and f32 has
// 24 >= 2 p + 2, so the double rounding changes no result.
#define HALVES(expression)                             \
  {                                                    \
    [](uint64_t x, uint64_t y, uint64_t) -> uint64_t { \
      const float a = kValue(x), b = kValue(y);        \
      return kBits(bits<float>(expression));           \
    },                                                 \
        2                                              \
  }
template <float (*kValue)(uint64_t), uint64_t (*kBits)(uint64_t)>
void add_half(Table& t, const std::string& type) {
  t["add." + type] = t["add.rn." + type] = HALVES(a + b);
  t["sub." + type] = t["sub.rn." + type] = HALVES(a - b);
  t["mul." + type] = t["mul.rn." + type] = HALVES(a * b);
  t["max.NaN." + type] = HALVES((extreme<true, true>(a, b)));
  t["min.NaN." + type] = HALVES((extreme<false, true>(a, b)));
  t["max." + type] = HALVES((extreme<true, false>(a, b)));
  t["min." + type] = HALVES((extreme<false, false>(a, b)));
  t["cvt.rmi." + type + "." + type] = {
      [](uint64_t a, uint64_t, uint64_t) -> uint64_t { return kBits(bits(std::floor(kValue(a)))); },
      1};
  t["cvt.rpi." + type + "." + type] = {
      [](uint64_t a, uint64_t, uint64_t) -> uint64_t { return kBits(bits(std::ceil(kValue(a)))); },
      1};
  t["cvt.rni." + type + "." + type] = {[](uint64_t a, uint64_t, uint64_t) -> uint64_t {
                                         return kBits(bits(std::nearbyint(kValue(a))));
                                       },
                                       1};
  t["fma.rn." + type] = {[](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                           return fused_half<kValue, kBits>(a, b, c);
                         },
                         3};
  t["neg." + type] = {[](uint64_t a, uint64_t, uint64_t) -> uint64_t { return a ^ 0x8000; }, 1};
  t["abs." + type] = {[](uint64_t a, uint64_t, uint64_t) -> uint64_t { return a & 0x7fff; }, 1};
}
#undef HALVES

// Conversions of two numbers at once. Operand a, or the upper part of a single operand, gives the
// upper byte or half of the result.
template <const Fp8& kFormat>
uint64_t fp8_pair(double upper, double lower) {
  return to_fp8(kFormat, upper) << 8 | to_fp8(kFormat, lower);
}
template <const Fp8& kFormat>
uint64_t fp8_half(uint64_t code) {
  return f16_bits(bits(static_cast<float>(from_fp8(kFormat, as<uint8_t>(code)))));
}
template <const Fp8& kFormat>
void add_fp8(Table& t, const std::string& type) {
  t["cvt.rn.satfinite." + type + ".f32"] = {[](uint64_t a, uint64_t b, uint64_t) {
                                              return fp8_pair<kFormat>(as<float>(a), as<float>(b));
                                            },
                                            2};
  t["cvt.rn.satfinite." + type + ".f16x2"] = {[](uint64_t a, uint64_t, uint64_t) {
                                                return fp8_pair<kFormat>(f16_value(a >> 16),
                                                                         f16_value(a));
                                              },
                                              1};
  t["cvt.rn.f16x2." + type] = {[](uint64_t a, uint64_t, uint64_t) {
                                 return fp8_half<kFormat>(a >> 8) << 16 | fp8_half<kFormat>(a);
                               },
                               1};
}

void add_conversions(Table& t) {
  add_fp8<kE4m3>(t, "e4m3x2");
  add_fp8<kE5m2>(t, "e5m2x2");
  add_conversions_to<int16_t>(t, "s16");
  add_conversions_to<uint16_t>(t, "u16");
  add_conversions_to<int32_t>(t, "s32");
  add_conversions_to<uint32_t>(t, "u32");
  add_conversions_to<int64_t>(t, "s64");
  add_conversions_to<uint64_t>(t, "u64");
  for (const char* from : {"s16", "u16", "s32", "u32", "s64", "u64"}) {
    t[std::string("cvt.s8.") + from] = kByte<int8_t>;
    t[std::string("cvt.u8.") + from] = kByte<uint8_t>;
  }
  t["cvt.rna.tf32.f32"] = {
      [](uint64_t a, uint64_t, uint64_t) { return bits(to_tf32(as<float>(a))); }, 1};
  t["cvt.rzi.s16.f32"] = {[](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                            return truncated<int16_t, as<float>>(a, b, c);
                          },
                          1};
  t["cvt.rzi.s32.f32"] = {[](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                            return truncated<int32_t, as<float>>(a, b, c);
                          },
                          1};
  t["cvt.rzi.s64.f32"] = {[](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
                            return truncated<int64_t, as<float>>(a, b, c);
                          },
                          1};
  t["cvt.f32.bf16"] = {
      [](uint64_t a, uint64_t, uint64_t) { return bits(from_bf16(as<uint16_t>(a))); }, 1};
  t["cvt.f32.f16"] = {
      [](uint64_t a, uint64_t, uint64_t) { return bits(from_f16(as<uint16_t>(a))); }, 1};
  t["cvt.rn.bf16.f32"] = {[](uint64_t a, uint64_t, uint64_t) { return bf16_bits(a); }, 1};
  t["cvt.rn.f16.f32"] = {[](uint64_t a, uint64_t, uint64_t) { return f16_bits(a); }, 1};
  // Operand a becomes the upper half.
  t["cvt.rn.bf16x2.f32"] = {
      [](uint64_t a, uint64_t b, uint64_t) { return bf16_bits(a) << 16 | bf16_bits(b); }, 2};
  t["cvt.rn.f16x2.f32"] = {
      [](uint64_t a, uint64_t b, uint64_t) { return f16_bits(a) << 16 | f16_bits(b); }, 2};
}

#undef UNARY
#undef BINARY
#undef COMPARE
#undef FLOATS

Table make_table() {
  Table t;
  add_integer<int16_t>(t, "s16");
  add_integer<uint16_t>(t, "u16");
  add_integer<int32_t>(t, "s32");
  add_integer<uint32_t>(t, "u32");
  add_integer<int64_t>(t, "s64");
  add_integer<uint64_t>(t, "u64");
  add_bits<uint16_t>(t, "b16");
  add_bits<uint32_t>(t, "b32");
  add_bits<uint64_t>(t, "b64");
  add_wide(t);
  add_predicates(t);
  add_float(t);
  add_comparisons<as<float>>(t, "f32");
  add_comparisons<f16_value>(t, "f16");
  add_comparisons<bf16_value>(t, "bf16");
  add_half<f16_value, f16_bits>(t, "f16");
  add_half<bf16_value, bf16_bits>(t, "bf16");
  add_conversions(t);
  return t;
}

}  // namespace

const Pure* find_pure(const std::string& opcode) {
  static const Table table = make_table();
  const auto entry = table.find(opcode);
  return entry == table.end() ? nullptr : &entry->second;
}

}  // namespace ligerdsl::test::ptx
