// Casts, selects and arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

using program::ArithmeticOp;
using program::AttrKey;
using program::ElementwiseOp;
using program::IntegerOp;
using program::MathOp;
using program::Predicate;
using program::SignOp;

namespace {

// Result for unreachable code after a switch over all members of an enum.
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

double minimum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
}
double maximum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}

double evaluate(ArithmeticOp code, double a, double b) {
  switch (code) {
    case ArithmeticOp::add:
      return a + b;
    case ArithmeticOp::sub:
      return a - b;
    case ArithmeticOp::mul:
      return a * b;
    case ArithmeticOp::div:
      return a / b;
    case ArithmeticOp::min:
      return minimum(a, b);
    case ArithmeticOp::max:
      return maximum(a, b);
  }
  return kNoValue;
}

double evaluate(MathOp code, double x) {
  switch (code) {
    case MathOp::floor:
      return std::floor(x);
    case MathOp::ceil:
      return std::ceil(x);
    case MathOp::round:
      return std::nearbyint(x);
    case MathOp::exp:
      return std::exp(x);
    case MathOp::exp2:
      return std::exp2(x);
    case MathOp::log:
      return std::log(x);
    case MathOp::log2:
      return std::log2(x);
    case MathOp::sqrt:
      return std::sqrt(x);
    case MathOp::rsqrt:
      return 1.0 / std::sqrt(x);
    case MathOp::tanh:
      return std::tanh(x);
    case MathOp::erf:
      return std::erf(x);
    case MathOp::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case MathOp::sin:
      return std::sin(x);
    case MathOp::cos:
      return std::cos(x);
    case MathOp::log1p:
      return std::log1p(x);
    case MathOp::expm1:
      return std::expm1(x);
  }
  return kNoValue;
}

double evaluate(SignOp code, double x) {
  switch (code) {
    case SignOp::neg:
      return -x;
    case SignOp::abs:
      return std::fabs(x);
  }
  return kNoValue;
}

// Integer arithmetic wraps as for unsigned numbers. Division, minimum and maximum are signed.
int64_t negative(int64_t x) {
  return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
}

int64_t evaluate(ArithmeticOp code, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (code) {
    case ArithmeticOp::add:
      return static_cast<int64_t>(x + y);
    case ArithmeticOp::sub:
      return static_cast<int64_t>(x - y);
    case ArithmeticOp::mul:
      return static_cast<int64_t>(x * y);
    case ArithmeticOp::div:
      return b == -1 ? negative(a) : a / b;
    case ArithmeticOp::min:
      return std::min(a, b);
    case ArithmeticOp::max:
      return std::max(a, b);
  }
  return 0;
}

int bits(DType dtype) {
  return dtype == i1 ? 1 : static_cast<int>(8 * size_of(dtype));
}

// Returns the bits as an unsigned number.
uint64_t unsigned_of(DType dtype, int64_t value) {
  return static_cast<uint64_t>(value) & (~uint64_t{0} >> (64 - bits(dtype)));
}

int64_t evaluate(IntegerOp code, DType dtype, int64_t a, int64_t b) {
  const uint64_t x = unsigned_of(dtype, a), y = unsigned_of(dtype, b);
  switch (code) {
    case IntegerOp::udiv:
      return static_cast<int64_t>(x / y);
    case IntegerOp::urem:
      return static_cast<int64_t>(x % y);
    case IntegerOp::lshr:
      return static_cast<int64_t>(x >> b);
    case IntegerOp::rem:
      return b == -1 ? 0 : a % b;
    case IntegerOp::bit_and:
      return a & b;
    case IntegerOp::bit_or:
      return a | b;
    case IntegerOp::bit_xor:
      return a ^ b;
    case IntegerOp::shl:
      return static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case IntegerOp::shr:
      return a >> b;
  }
  return 0;
}

int64_t evaluate(SignOp code, int64_t x) {
  switch (code) {
    case SignOp::neg:
      return negative(x);
    case SignOp::abs:
      return x < 0 ? negative(x) : x;
  }
  return 0;
}

template <class T>
bool holds(Predicate predicate, T a, T b) {
  switch (predicate) {
    case Predicate::eq:
      return a == b;
    case Predicate::ne:
      return a != b;
    case Predicate::lt:
      return a < b;
    case Predicate::le:
      return a <= b;
    case Predicate::gt:
      return a > b;
    case Predicate::ge:
      return a >= b;
  }
  return false;
}

// Rounds toward zero. Values outside the range of the type become its limits, and NaN becomes 0.
int64_t truncate_to(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  const double bound = -static_cast<double>(least_of(dtype));
  if (value >= bound) return most_of(dtype);
  if (value < -bound) return least_of(dtype);
  return static_cast<int64_t>(value);
}

// Returns the error message for a division by zero. A zero divisor is an error even in elements
// that are never stored.
std::string divided_by_zero(size_t element) {
  return "division by zero in element " + std::to_string(element) +
         "; if the divisor is outside its view, load it with {.pad = 1}";
}

bool shifts(IntegerOp code) {
  return code == IntegerOp::shl || code == IntegerOp::shr || code == IntegerOp::lshr;
}
bool divides(IntegerOp code) {
  return code == IntegerOp::rem || code == IntegerOp::udiv || code == IntegerOp::urem;
}

}  // namespace

void Machine::elementwise(const Op& op, ElementwiseOp code) {
  switch (code) {
    case ElementwiseOp::cast:
      return cast(op);
    case ElementwiseOp::bitcast:
      return bitcast(op);
    case ElementwiseOp::compare:
      return compare(op);
    case ElementwiseOp::select:
      return select(op);
    case ElementwiseOp::fma: {
      const std::vector<double>&a = data(op.operands[0]).real, &b = data(op.operands[1]).real;
      const std::vector<double>& c = data(op.operands[2]).real;
      std::vector<double>& out = result(op).real;
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = rounded(type(op.results[0]).dtype, std::fma(a[i], b[i], c[i]));
      return;
    }
    case ElementwiseOp::pow: {
      const std::vector<double>&a = data(op.operands[0]).real, &b = data(op.operands[1]).real;
      std::vector<double>& out = result(op).real;
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = rounded(type(op.results[0]).dtype, std::pow(a[i], b[i]));
    }
  }
}

void Machine::select(const Op& op) {
  const std::vector<int64_t>& test = data(op.operands[0]).integer;
  const Data& a = data(op.operands[1]);
  const Data& b = data(op.operands[2]);
  Data& out = result(op);
  for (size_t i = 0; i < out.real.size(); ++i) out.real[i] = test[i] ? a.real[i] : b.real[i];
  for (size_t i = 0; i < out.integer.size(); ++i)
    out.integer[i] = test[i] ? a.integer[i] : b.integer[i];
}

void Machine::math(const Op& op, MathOp code) {
  const std::vector<double>& x = data(op.operands[0]).real;
  std::vector<double>& out = result(op).real;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = rounded(type(op.results[0]).dtype, evaluate(code, x[i]));
}

void Machine::sign(const Op& op, SignOp code) {
  const DType dtype = type(op.results[0]).dtype;
  const Data& x = data(op.operands[0]);
  Data& out = result(op);
  for (size_t i = 0; i < out.real.size(); ++i)
    out.real[i] = rounded(dtype, evaluate(code, x.real[i]));
  for (size_t i = 0; i < out.integer.size(); ++i)
    out.integer[i] = wrap_to(dtype, evaluate(code, x.integer[i]));
}

void Machine::arithmetic(const Op& op, ArithmeticOp code) {
  const DType dtype = type(op.results[0]).dtype;
  const Data &a = data(op.operands[0]), &b = data(op.operands[1]);
  Data& out = result(op);
  for (size_t i = 0; i < out.real.size(); ++i)
    out.real[i] = rounded(dtype, evaluate(code, a.real[i], b.real[i]));
  for (size_t i = 0; i < out.integer.size(); ++i) {
    if (code == ArithmeticOp::div && b.integer[i] == 0) fail(op, divided_by_zero(i));
    out.integer[i] = wrap_to(dtype, evaluate(code, a.integer[i], b.integer[i]));
  }
}

void Machine::integer(const Op& op, IntegerOp code) {
  const DType dtype = type(op.results[0]).dtype;
  const std::vector<int64_t>&a = data(op.operands[0]).integer, &b = data(op.operands[1]).integer;
  std::vector<int64_t>& out = result(op).integer;
  for (size_t i = 0; i < out.size(); ++i) {
    if (shifts(code) && (b[i] < 0 || b[i] >= bits(dtype)))
      fail(op, "expected a shift by 0 to " + std::to_string(bits(dtype) - 1) + " bits, got " +
                   std::to_string(b[i]) + " in element " + std::to_string(i));
    if (divides(code) && b[i] == 0) fail(op, divided_by_zero(i));
    out[i] = wrap_to(dtype, evaluate(code, dtype, a[i], b[i]));
  }
}

void Machine::compare(const Op& op) {
  const auto predicate = static_cast<Predicate>(op.integer(AttrKey::predicate));
  const Data& a = data(op.operands[0]);
  const Data& b = data(op.operands[1]);
  const bool real = is_float(type(op.operands[0]).dtype);
  std::vector<int64_t>& out = result(op).integer;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = real ? holds(predicate, a.real[i], b.real[i])
                  : holds(predicate, a.integer[i], b.integer[i]);
  }
}

void Machine::cast(const Op& op) {
  const DType from = type(op.operands[0]).dtype, to = type(op.results[0]).dtype;
  const Data& in = data(op.operands[0]);
  Data& out = result(op);
  for (size_t i = 0; i < out.real.size(); ++i) {
    if (is_float(from)) {
      const double value = is_fp8(to) ? saturate(to, in.real[i]) : in.real[i];
      out.real[i] = options_.round_casts ? round_to(to, value) : value;
    } else {
      out.real[i] = round_to(to, odd_double(in.integer[i]));
    }
  }
  for (size_t i = 0; i < out.integer.size(); ++i) {
    if (to == i1) {
      out.integer[i] = is_float(from) ? in.real[i] != 0.0 : in.integer[i] != 0;
    } else {
      out.integer[i] = is_float(from) ? truncate_to(to, in.real[i]) : wrap_to(to, in.integer[i]);
    }
  }
}

namespace {

// Returns the bits of a NaN. The negative NaN has the inverted fraction bits of the positive NaN,
// except in f8e4m3.
uint64_t nan_bits(DType dtype, bool negative) {
  switch (dtype) {
    case f8e4m3:
      return negative ? 0xff : 0x7f;  // f8e4m3 has no other NaNs
    case f8e5m2:
      return negative ? 0xfd : 0x7e;
    case f16:
      return negative ? 0xfdff : 0x7e00;
    case bf16:
      return negative ? 0xffbf : 0x7fc0;
    case f32:
      return negative ? 0xffbfffff : 0x7fc00000;
    case i1:
    case i8:
    case i16:
    case i32:
    case i64:
      break;
  }
  return 0;
}

}  // namespace

// Converts through memory, where each element has its type's bits.
void Machine::bitcast(const Op& op) {
  const DType from = type(op.operands[0]).dtype, to = type(op.results[0]).dtype;
  const Data& in = data(op.operands[0]);
  Data& out = result(op);
  const size_t count = std::max(in.real.size(), in.integer.size());
  for (size_t i = 0; i < count; ++i) {
    uint64_t element = 0;
    if (is_float(from) && std::isnan(in.real[i]) && options_.nan_bits != NanBits::usual) {
      element = nan_bits(from, options_.nan_bits == NanBits::first);
    } else if (is_float(from)) {
      write_float(from, &element, in.real[i]);
    } else {
      write_integer(from, &element, in.integer[i]);
    }
    if (is_float(to)) {
      out.real[i] = read_float(to, &element);
    } else {
      out.integer[i] = read_integer(to, &element);
    }
  }
}

}  // namespace ligerdsl::interpreter
