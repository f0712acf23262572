#include "analysis/abstract_value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "program/op_info.h"

namespace ligerdsl::analysis {
namespace {

using program::AttrKey;
using program::Op;
using program::OpCode;
using program::Predicate;
using program::Shape;
using program::Type;
using Kind = Value::Kind;

int64_t wrap(DType type, int64_t value) {
  switch (size_of(type)) {
    case 1:
      return type == DType::i1 ? value & 1 : static_cast<int8_t>(value);
    case 2:
      return static_cast<int16_t>(value);
    case 4:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

int64_t unsigned_bits(DType type, int64_t value) {
  return size_of(type) == 4 ? static_cast<int64_t>(static_cast<uint32_t>(value)) : value;
}

// Addition and multiplication that wrap on overflow.
int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Returns the op's result for two uniform integers, or nullopt for other ops and for a division by
// zero.
std::optional<int64_t> fold(const Op& op, DType type, int64_t a, int64_t b) {
  const int bits = static_cast<int>(8 * size_of(type));
  switch (op.code) {
    case OpCode::add:
      return plus(a, b);
    case OpCode::sub:
      return plus(a, times(b, -1));
    case OpCode::mul:
      return times(a, b);
    case OpCode::div:
      if (b == 0) return {};
      return b == -1 ? times(a, -1) : a / b;
    case OpCode::rem:
      if (b == 0) return {};
      return b == -1 ? 0 : a % b;
    case OpCode::udiv:
      if (b == 0) return {};
      return static_cast<int64_t>(static_cast<uint64_t>(unsigned_bits(type, a)) /
                                  static_cast<uint64_t>(unsigned_bits(type, b)));
    case OpCode::urem:
      if (b == 0) return {};
      return static_cast<int64_t>(static_cast<uint64_t>(unsigned_bits(type, a)) %
                                  static_cast<uint64_t>(unsigned_bits(type, b)));
    case OpCode::min:
      return std::min(a, b);
    case OpCode::max:
      return std::max(a, b);
    case OpCode::bit_and:
      return a & b;
    case OpCode::bit_or:
      return a | b;
    case OpCode::bit_xor:
      return a ^ b;
    case OpCode::shl:
      return b < 0 || b >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case OpCode::shr:
      return a >> std::clamp<int64_t>(b, 0, 63);
    case OpCode::lshr:
      return b < 0 || b >= bits
                 ? 0
                 : static_cast<int64_t>(static_cast<uint64_t>(unsigned_bits(type, a)) >> b);
    default:
      return {};
  }
}

Value fold_real(const Op& op, double a, double b) {
  switch (op.code) {
    case OpCode::add:
      return real_value(a + b);
    case OpCode::sub:
      return real_value(a - b);
    case OpCode::mul:
      return real_value(a * b);
    case OpCode::div:
      return b != 0 ? real_value(a / b) : Value{};
    case OpCode::min:
      return real_value(std::min(a, b));
    case OpCode::max:
      return real_value(std::max(a, b));
    default:
      return {};
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

int64_t ceil_quotient(int64_t a, int64_t b) {  // b > 0
  return a / b + (a % b > 0);
}

// Sets [first, end) to the indices i in [0, size) for which `base + step * i <predicate> 0` is
// true. Returns false if they are not one range: `ne` is false at one index in [0, size).
bool range_of(Predicate predicate, int64_t base, int64_t step, int64_t size, int64_t* first,
              int64_t* end) {
  if (predicate == Predicate::gt || predicate == Predicate::ge) {  // -base - step * i < 0
    return range_of(predicate == Predicate::gt ? Predicate::lt : Predicate::le, -base, -step, size,
                    first, end);
  }
  if (predicate == Predicate::le) return range_of(Predicate::lt, base - 1, step, size, first, end);
  if (predicate == Predicate::lt) {
    *first = 0, *end = size;
    if (step > 0)
      *end = std::clamp<int64_t>(ceil_quotient(-base, step), 0, size);
    else
      *first = std::clamp<int64_t>(base < 0 ? 0 : base / -step + 1, 0, size);
    return true;
  }
  if (base % step != 0) {
    *first = 0, *end = predicate == Predicate::eq ? 0 : size;
    return true;
  }
  const int64_t at = -base / step;
  const bool inside = at >= 0 && at < size;
  if (predicate == Predicate::eq) {
    *first = inside ? at : 0, *end = inside ? at + 1 : 0;
    return true;
  }
  *first = 0, *end = size;
  return !inside;
}

Value compare_integers(Predicate predicate, const Value& a, const Value& b, const Shape& shape) {
  if (a.is_uniform() && b.is_uniform()) {
    const bool truth = holds(predicate, a.base, b.base);
    return shape.empty() ? integer_value(truth) : uniform_mask(truth, shape);
  }
  int moving = -1;
  std::array<int64_t, kMaxRank> step{};
  for (size_t d = 0; d < shape.size(); ++d) {
    step[d] = a.step[d] - b.step[d];
    if (step[d] == 0 || shape[d] == 1) continue;
    if (moving >= 0) return {};
    moving = static_cast<int>(d);
  }
  const int64_t base = a.base - b.base;
  if (moving < 0) return uniform_mask(holds<int64_t>(predicate, base, 0), shape);
  Value mask = uniform_mask(true, shape);
  if (!range_of(predicate, base, step[moving], shape[moving], &mask.first[moving],
                &mask.end[moving]))
    return {};
  return mask;
}

bool is_full(const Value& mask, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask.first[d] != 0 || mask.end[d] != shape[d]) return false;
  return true;
}
bool is_empty(const Value& mask, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask.first[d] >= mask.end[d]) return true;
  return false;
}

Value combine_masks(const Op& op, const Value& a, const Value& b, const Shape& shape) {
  if (op.code == OpCode::bit_and) {
    if ((a.kind == Kind::box && is_empty(a, shape)) || (b.kind == Kind::box && is_empty(b, shape)))
      return uniform_mask(false, shape);
    if (a.kind != Kind::box || b.kind != Kind::box) return {};
    Value both = a;
    for (size_t d = 0; d < shape.size(); ++d) {
      both.first[d] = std::max(a.first[d], b.first[d]);
      both.end[d] = std::max(both.first[d], std::min(a.end[d], b.end[d]));
    }
    return both;
  }
  if (a.kind != Kind::box || b.kind != Kind::box) return {};
  if (op.code == OpCode::bit_or) {
    if (is_full(a, shape) || is_empty(b, shape)) return a;
    if (is_full(b, shape) || is_empty(a, shape)) return b;
  }
  if (op.code == OpCode::bit_xor) {
    if (is_empty(b, shape)) return a;
    if (is_empty(a, shape)) return b;
    if (is_full(a, shape) && is_full(b, shape)) return uniform_mask(false, shape);
  }
  return {};
}

// Returns the result of an operation on integers: scalars, or tiles with elements base + step * i.
Value arithmetic(const Op& op, const Value& a, const Value& b, const Type& type) {
  const size_t rank = type.shape.size();
  if (a.is_uniform() && b.is_uniform()) {
    const auto folded = fold(op, type.dtype, a.base, b.base);
    return folded ? integer_value(wrap(type.dtype, *folded)) : Value{};
  }
  Value out = a;
  out.argument = -1;
  switch (op.code) {
    case OpCode::add:
    case OpCode::sub: {
      const int64_t sign = op.code == OpCode::add ? 1 : -1;
      out.base = plus(a.base, times(sign, b.base));
      for (size_t d = 0; d < rank; ++d) out.step[d] = plus(a.step[d], times(sign, b.step[d]));
      return out;
    }
    case OpCode::mul: {
      const Value& moving = a.is_uniform() ? b : a;
      const Value& factor = a.is_uniform() ? a : b;
      if (!factor.is_uniform()) return {};
      out = moving;
      out.base = times(moving.base, factor.base);
      for (size_t d = 0; d < rank; ++d) out.step[d] = times(moving.step[d], factor.base);
      return out;
    }
    case OpCode::shl:
      if (!b.is_uniform() || b.base < 0 || b.base > 62) return {};
      out.base = times(a.base, int64_t{1} << b.base);
      for (size_t d = 0; d < rank; ++d) out.step[d] = times(a.step[d], int64_t{1} << b.base);
      return out;
    default:
      return {};
  }
}

Value evaluate_cast(const Value& value, const Type& from, const Type& to) {
  if (from.dtype == DType::i1 && !to.shape.empty()) return {};
  if (value.kind == Kind::integer && is_integer(to.dtype)) {
    Value out = value;
    if (to.dtype == DType::i1) return to.shape.empty() ? integer_value(value.base != 0) : Value{};
    if (value.is_uniform()) out.base = wrap(to.dtype, value.base);
    return out;
  }
  if (value.is_uniform() && is_float(to.dtype)) return real_value(static_cast<double>(value.base));
  if (value.kind == Kind::real && is_float(to.dtype)) return value;
  if (value.kind == Kind::real && to.shape.empty() && is_integer(to.dtype) &&
      std::abs(value.real) < 9e18) {
    if (to.dtype == DType::i1) return integer_value(value.real != 0);
    const double limit = std::ldexp(1.0, static_cast<int>(8 * size_of(to.dtype)) - 1);
    return integer_value(static_cast<int64_t>(std::clamp(value.real, -limit, limit - 1)));
  }
  return {};
}

Value evaluate_select(const Value& test, const Value& yes, const Value& no, const Shape& shape) {
  if (shape.empty() || test.kind == Kind::integer)
    return test.kind == Kind::integer ? (test.base ? yes : no) : Value{};
  if (test.kind != Kind::box) return {};
  return is_full(test, shape) ? yes : is_empty(test, shape) ? no : Value{};
}

}  // namespace

bool Value::is_uniform() const {
  return kind == Kind::integer &&
         std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 0; });
}

Value integer_value(int64_t value) {
  Value out;
  out.kind = Kind::integer;
  out.base = value;
  return out;
}

Value real_value(double value) {
  Value out;
  out.kind = Kind::real;
  out.real = value;
  return out;
}

Value uniform_mask(bool truth, const Shape& shape) {
  Value out;
  if (shape.size() > kMaxRank) return out;
  out.kind = Kind::box;
  for (size_t d = 0; d < shape.size(); ++d) out.end[d] = truth ? shape[d] : 0;
  return out;
}

std::optional<int64_t> true_elements(const Value& mask, const Shape& shape) {
  if (mask.kind == Kind::integer && shape.empty()) return mask.base != 0;
  if (mask.kind != Kind::box) return {};
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    elements *= std::max<int64_t>(mask.end[d] - mask.first[d], 0);
  return elements;
}

Value evaluate_elementwise(const Op& op, const Value* const* operands, const Type& operand,
                           const Type& type) {
  const Value& a = *operands[0];
  const Shape& shape = type.shape;
  if (shape.size() > kMaxRank) return {};
  switch (op.code) {
    case OpCode::cast:
      return evaluate_cast(a, operand, type);
    case OpCode::select:
      return evaluate_select(a, *operands[1], *operands[2], shape);
    case OpCode::neg:
      if (a.kind == Kind::real) return real_value(-a.real);
      if (a.kind != Kind::integer) return {};
      return arithmetic(Op{.code = OpCode::sub,
                           .operands = {},
                           .results = {},
                           .attrs = {},
                           .regions = {},
                           .loc = {}},
                        integer_value(0), a, type);
    case OpCode::abs:
      if (a.kind == Kind::real) return real_value(a.real < 0 ? -a.real : a.real);
      return a.is_uniform() ? integer_value(a.base < 0 ? times(a.base, -1) : a.base) : Value{};
    default:
      break;
  }
  if (op.operands.size() != 2) return {};
  const Value& b = *operands[1];
  if (op.code == OpCode::compare) {
    const auto predicate = static_cast<Predicate>(op.integer(AttrKey::predicate));
    if (a.kind == Kind::integer && b.kind == Kind::integer)
      return compare_integers(predicate, a, b, shape);
    if (a.kind == Kind::real && b.kind == Kind::real) {
      const bool truth = holds(predicate, a.real, b.real);
      return shape.empty() ? integer_value(truth) : uniform_mask(truth, shape);
    }
    return {};
  }
  if (type.dtype == DType::i1 && !shape.empty()) return combine_masks(op, a, b, shape);
  if (type.dtype == DType::i1 && a.kind != b.kind) {  // `false & x` and `true | x` are known
    const Value& known = a.kind == Kind::integer ? a : b;
    if (known.kind == Kind::integer && op.code == OpCode::bit_and && known.base == 0) return known;
    if (known.kind == Kind::integer && op.code == OpCode::bit_or && known.base != 0) return known;
  }
  if (a.kind == Kind::integer && b.kind == Kind::integer) return arithmetic(op, a, b, type);
  if (a.kind == Kind::real && b.kind == Kind::real) return fold_real(op, a.real, b.real);
  return {};
}

Value evaluate_shape(const Op& op, const Value& value, const Type& from, const Type& to) {
  if (to.shape.size() > kMaxRank) return {};
  Value out = value;
  const bool mask = value.kind == Kind::box;
  switch (op.code) {
    case OpCode::splat:
      if (to.dtype == DType::i1 && to.kind == program::TypeKind::tile)
        return value.kind == Kind::integer ? uniform_mask(value.base != 0, to.shape) : Value{};
      return out;
    case OpCode::expand_dims: {
      const auto axis = static_cast<size_t>(op.integer(AttrKey::axis));
      for (size_t d = to.shape.size(); d-- > axis + 1;) {
        out.step[d] = out.step[d - 1], out.first[d] = out.first[d - 1], out.end[d] = out.end[d - 1];
      }
      out.step[axis] = 0, out.first[axis] = 0, out.end[axis] = mask ? 1 : 0;
      return out;
    }
    case OpCode::broadcast:
      for (size_t d = 0; d < to.shape.size(); ++d) {
        if (from.shape[d] == to.shape[d]) continue;
        out.step[d] = 0;
        if (mask) out.end[d] = out.end[d] > out.first[d] ? to.shape[d] : 0, out.first[d] = 0;
      }
      return out;
    case OpCode::permute: {
      const auto& order = std::get<Shape>(*op.find(AttrKey::permutation));
      for (size_t d = 0; d < order.size(); ++d) {
        out.step[d] = value.step[order[d]];
        out.first[d] = value.first[order[d]], out.end[d] = value.end[order[d]];
      }
      return out;
    }
    case OpCode::reshape: {
      if (value.kind == Kind::real || value.is_uniform()) return out;
      if (mask && is_full(value, from.shape)) return uniform_mask(true, to.shape);
      if (mask && is_empty(value, from.shape)) return uniform_mask(false, to.shape);
      // The result of other reshapes is known only if they add or remove dimensions of size 1.
      out.step = {}, out.first = {}, out.end = {};
      size_t d = 0;
      for (size_t i = 0; i < to.shape.size(); ++i) {
        if (to.shape[i] == 1) {
          out.end[i] = mask ? 1 : 0;
          continue;
        }
        while (d < from.shape.size() && from.shape[d] == 1) ++d;
        if (d >= from.shape.size() || from.shape[d] != to.shape[i]) return {};
        out.step[i] = value.step[d], out.first[i] = value.first[d], out.end[i] = value.end[d];
        ++d;
      }
      return out;
    }
    default:
      return {};
  }
}

}  // namespace ligerdsl::analysis
