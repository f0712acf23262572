// Casts, selects and arithmetic.
#include <algorithm>
#include <cmath>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

using program::AttrKey;
using program::OpCode;
using program::Predicate;

namespace {

double minimum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
}
double maximum(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}

double evaluate(OpCode code, double a, double b, double c) {
  switch (code) {
    case OpCode::add:
      return a + b;
    case OpCode::sub:
      return a - b;
    case OpCode::mul:
      return a * b;
    case OpCode::div:
      return a / b;
    case OpCode::min:
      return minimum(a, b);
    case OpCode::max:
      return maximum(a, b);
    case OpCode::fma:
      return std::fma(a, b, c);
    case OpCode::neg:
      return -a;
    case OpCode::abs:
      return std::fabs(a);
    case OpCode::floor:
      return std::floor(a);
    case OpCode::ceil:
      return std::ceil(a);
    case OpCode::exp:
      return std::exp(a);
    case OpCode::exp2:
      return std::exp2(a);
    case OpCode::log:
      return std::log(a);
    case OpCode::log2:
      return std::log2(a);
    case OpCode::sqrt:
      return std::sqrt(a);
    case OpCode::rsqrt:
      return 1.0 / std::sqrt(a);
    case OpCode::tanh:
      return std::tanh(a);
    case OpCode::erf:
      return std::erf(a);
    default:
      return 1.0 / (1.0 + std::exp(-a));  // sigmoid
  }
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

// Toward zero; values outside the type become its limits, NaN 0.
int64_t truncate_to(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  const double bound = std::ldexp(1.0, dtype == i8 ? 7 : dtype == i32 ? 31 : 63);
  if (value >= bound) return dtype == i64 ? INT64_MAX : static_cast<int64_t>(bound) - 1;
  if (value < -bound) return dtype == i64 ? INT64_MIN : -static_cast<int64_t>(bound);
  return static_cast<int64_t>(value);
}

int bits(DType dtype) {
  return dtype == i1 ? 1 : static_cast<int>(8 * size_of(dtype));
}

}  // namespace

void Machine::elementwise(const Op& op) {
  if (op.code == OpCode::cast) return cast(op);
  if (op.code == OpCode::compare) return compare(op);
  if (op.code == OpCode::select) {
    const std::vector<int64_t>& test = data(op.operands[0]).integer;
    const Data& a = data(op.operands[1]);
    const Data& b = data(op.operands[2]);
    Data& out = result(op);
    for (size_t i = 0; i < out.real.size(); ++i) out.real[i] = test[i] ? a.real[i] : b.real[i];
    for (size_t i = 0; i < out.integer.size(); ++i) out.integer[i] = test[i] ? a.integer[i] : b.integer[i];
    return;
  }
  is_float(type(op.results[0]).dtype) ? float_op(op) : integer_op(op);
}

void Machine::float_op(const Op& op) {
  const DType dtype = type(op.results[0]).dtype;
  const std::vector<double>& a = data(op.operands[0]).real;
  const std::vector<double>& b = data(op.operands[op.operands.size() > 1 ? 1 : 0]).real;
  const std::vector<double>& c = data(op.operands.back()).real;
  std::vector<double>& out = result(op).real;
  for (size_t i = 0; i < out.size(); ++i) out[i] = rounded(dtype, evaluate(op.code, a[i], b[i], c[i]));
}

void Machine::integer_op(const Op& op) {
  const DType dtype = type(op.results[0]).dtype;
  const std::vector<int64_t>& a = data(op.operands[0]).integer;
  const std::vector<int64_t>& b = data(op.operands.back()).integer;
  std::vector<int64_t>& out = result(op).integer;
  for (size_t i = 0; i < out.size(); ++i) {
    // Unsigned arithmetic wraps; the signed results differ only in the cases handled apart.
    const auto x = static_cast<uint64_t>(a[i]), y = static_cast<uint64_t>(b[i]);
    uint64_t value = 0;
    switch (op.code) {
      case OpCode::add:
        value = x + y;
        break;
      case OpCode::sub:
        value = x - y;
        break;
      case OpCode::mul:
        value = x * y;
        break;
      case OpCode::div:
      case OpCode::rem:
        if (b[i] == 0) fail(op, "division by zero");
        if (b[i] == -1) {
          value = op.code == OpCode::div ? 0 - x : 0;
        } else {
          value = static_cast<uint64_t>(op.code == OpCode::div ? a[i] / b[i] : a[i] % b[i]);
        }
        break;
      case OpCode::min:
        value = static_cast<uint64_t>(std::min(a[i], b[i]));
        break;
      case OpCode::max:
        value = static_cast<uint64_t>(std::max(a[i], b[i]));
        break;
      case OpCode::bit_and:
        value = x & y;
        break;
      case OpCode::bit_or:
        value = x | y;
        break;
      case OpCode::bit_xor:
        value = x ^ y;
        break;
      case OpCode::shl:
      case OpCode::shr:
        if (b[i] < 0 || b[i] >= bits(dtype)) fail(op, "shift by " + std::to_string(b[i]));
        value = op.code == OpCode::shl ? x << b[i] : static_cast<uint64_t>(a[i] >> b[i]);
        break;
      case OpCode::neg:
        value = 0 - x;
        break;
      default:
        value = a[i] < 0 ? 0 - x : x;
        break;  // abs
    }
    out[i] = wrap_to(dtype, static_cast<int64_t>(value));
  }
}

void Machine::compare(const Op& op) {
  const auto predicate = static_cast<Predicate>(op.integer(AttrKey::predicate));
  const Data& a = data(op.operands[0]);
  const Data& b = data(op.operands[1]);
  const bool real = is_float(type(op.operands[0]).dtype);
  std::vector<int64_t>& out = result(op).integer;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = real ? holds(predicate, a.real[i], b.real[i]) : holds(predicate, a.integer[i], b.integer[i]);
  }
}

void Machine::cast(const Op& op) {
  const DType from = type(op.operands[0]).dtype, to = type(op.results[0]).dtype;
  const Data& in = data(op.operands[0]);
  Data& out = result(op);
  for (size_t i = 0; i < out.real.size(); ++i) {
    if (is_float(from)) {
      out.real[i] = options_.round_casts ? round_to(to, in.real[i]) : in.real[i];
    } else {
      // i64 -> f32 in one rounding.
      out.real[i] = to == f32 ? static_cast<double>(static_cast<float>(in.integer[i]))
                              : round_to(to, static_cast<double>(in.integer[i]));
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

}  // namespace ligerdsl::interpreter
