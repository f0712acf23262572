// Converts numbers, scalars and tiles to a common type.
#include <cmath>
#include <sstream>

#include "recorder.h"

namespace ligerdsl::detail {
namespace {

std::string number_string(const Number& number) {
  if (!number.is_float) return std::to_string(number.integer);
  std::ostringstream text;
  text << number.real;
  return text.str();
}

bool fits(int64_t value, DType dtype) {
  return value >= least_of(dtype) && value <= most_of(dtype);
}

std::string range_of(DType dtype) {
  return std::to_string(least_of(dtype)) + " to " + std::to_string(most_of(dtype));
}

std::string widened(DType dtype) {
  return std::string(".to(") + (dtype == i32 ? "i64" : "i32") + ")";
}

// Returns true for ops that read integers as unsigned. Widening an operand extends its sign, which
// would change its unsigned value.
bool reads_unsigned(const std::string& op) {
  static constexpr std::string_view kOps[] = {"ult", "ule", "ugt", "uge", "udiv", "urem", "umulhi"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}
// Returns true for ops whose number takes the dtype of another operand, which the author can
// convert. Stores, atomics, constants and indices have a fixed dtype instead.
bool has_operand(const std::string& op) {
  static constexpr std::string_view kOps[] = {"min", "max", "clamp", "where", "lshr", "cdiv"};
  return op.starts_with("operator") || reads_unsigned(op) ||
         std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}
// Returns the remedy for a number that an unsigned function cannot take as `dtype`.
std::string unsigned_advice(int64_t number, DType dtype) {
  const int64_t half = most_of(dtype) + 1,
                most = 2 * half - 1;  // i64 is excluded, because it represents every number
  const std::string widen = "convert the operand to its unsigned value with " + widened(dtype) +
                            " & " + std::to_string(most);
  if (number < 0 || number > most) return widen;
  return "write " + std::to_string(number - 2 * half) + ", which has the same bits, or " + widen;
}

// Returns the end of an error text if the number is outside the finite range of a float type, else
// "". An infinity is no error for a type that has infinities.
std::string overflow(double number, DType dtype) {
  const bool infinite = std::isinf(number) && dtype != f8e4m3;
  if (infinite || std::isnan(number) || std::fabs(number) <= largest_of(dtype)) return "";
  return std::string("overflows ") + name(dtype) + ", whose largest finite value is " +
         number_string(Number(largest_of(dtype))) +
         (dtype == f8e4m3 ? "; it has no infinities" : "; for infinity, write INFINITY");
}

// Converts an integer scalar to a wider integer type. Returns other scalars unchanged.
Handle widen(const Handle& scalar, DType dtype, Loc loc) {
  const bool wider = is_plain_integer(scalar.dtype) && is_plain_integer(dtype) &&
                     size_of(dtype) > size_of(scalar.dtype);
  return wider ? cast(scalar, dtype, loc) : scalar;
}

[[noreturn]] void fail_dtypes(const Handle& a, const Handle& b, const std::string& op, Loc loc) {
  fail(loc, op,
       std::string("operand types differ (") + name(a.dtype) + " and " + name(b.dtype) +
           "); convert one with .to(" + name(a.dtype) + ") or .to(" + name(b.dtype) + ")");
}

Shape broadcast_shape(const Shape& a, const Shape& b, const std::string& op, Loc loc) {
  if (a.size() != b.size()) {
    fail(loc, op,
         "the operands have shapes " + to_string(a) + " and " + to_string(b) +
             ", expected equal ranks; raise the lower rank with .expand_dims(axis)");
  }
  Shape out;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) {
      fail(loc, op,
           "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast: dimension " +
               std::to_string(i) + " must have equal sizes or be 1 in one of them");
    }
    out.push_back(a[i] == 1 ? b[i] : a[i]);
  }
  return out;
}

TypeKind kind(const Operand& operand) {
  return operand.handle.recorder->type(operand.handle).kind;
}

Pair match_scalars(Recorder& recorder, const Operand& a, const Operand& b, const std::string& op,
                   Loc loc) {
  const DType dtype = a.is_number ? b.handle.dtype : a.handle.dtype;
  Pair pair{scalar_operand(recorder, a, dtype, op, loc),
            scalar_operand(recorder, b, dtype, op, loc)};
  pair.a = widen(pair.a, pair.b.dtype, loc);
  pair.b = widen(pair.b, pair.a.dtype, loc);
  if (pair.a.dtype != pair.b.dtype) fail_dtypes(pair.a, pair.b, op, loc);
  return pair;
}

}  // namespace

void require_dtype(const Handle& x, program::Dtypes rule, const std::string& op, Loc loc) {
  if (program::accepts(rule, x.dtype)) return;
  const std::string got = "got " + std::string(name(x.dtype)) +
                          (x.shape.empty() ? " scalar" : " tile " + to_string(x.shape));
  if (is_fp8(x.dtype) && rule != program::Dtypes::i1)
    fail(loc, op,
         got + ", but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)");
  fail(loc, op,
       got + ", expected " +
           (is_fp8(x.dtype) ? "i1; convert fp8 and compare, as in x.to(f32) != 0"
                            : program::wanted(rule)));
}

Recorder& require_operand(const Handle& x, program::Dtypes rule, const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(x, op, loc);
  recorder.require_live(x, op, loc);
  require_dtype(x, rule, op, loc);
  return recorder;
}

void require_pad(double pad, DType type, Loc loc) {
  const std::string what = std::string("the pad value of a view of ") + name(type) + " is ";
  if (!is_integer(type)) {
    if (const std::string wrong = overflow(pad, type); !wrong.empty())
      fail(loc, "load", what + number_string(Number(pad)) + ", which " + wrong);
    return;
  }
  if (!std::isfinite(pad) || pad != std::floor(pad))
    fail(loc, "load", what + number_string(Number(pad)) + ", expected an integer");
  const bool large = std::fabs(pad) > 0x1p62;
  if (large || !fits(static_cast<int64_t>(pad), type))
    fail(loc, "load",
         what + number_string(large ? Number(pad) : Number(static_cast<int64_t>(pad))) +
             ", expected " + (type == i64 ? "-2^62 to 2^62" : range_of(type)));
}

Handle constant(Recorder& recorder, const Number& number, const Type& type, const std::string& op,
                Loc loc) {
  const DType dtype = type.dtype;
  if (is_integer(dtype)) {
    if (number.is_float) {
      fail(loc, op,
           std::string("expected an integer for ") + name(dtype) + ", got the float " +
               number_string(number) +
               (has_operand(op) ? "; write an integer, or convert the operand with .to(f32)"
                                : "; write an integer"));
    }
    if (!fits(number.integer, dtype)) {
      fail(loc, op,
           "the number " + number_string(number) + " is outside the range of " + name(dtype) +
               " (" + range_of(dtype) + "); " +
               (reads_unsigned(op) ? unsigned_advice(number.integer, dtype)
                : has_operand(op)  ? "convert the operand with " + widened(dtype)
                                   : "use a number in this range"));
    }
    const Handle made =
        recorder.emit_one(OpCode::constant, {}, type, {{AttrKey::value_int, number.integer}}, loc);
    recorder.integers[made.id] = number.integer;
    return made;
  }
  if (const std::string wrong = overflow(number.real, dtype); !wrong.empty())
    fail(loc, op, "the number " + number_string(number) + " " + wrong);
  return recorder.emit_one(OpCode::constant, {}, type, {{AttrKey::value_float, number.real}}, loc);
}

Handle scalar_operand(Recorder& recorder, const Operand& operand, DType dtype,
                      const std::string& op, Loc loc) {
  if (!operand.is_number) {
    recorder.require_live(operand.handle, op, loc);
    return operand.handle;
  }
  const bool wide = dtype == i32 && !operand.number.is_float && !fits(operand.number.integer, i32);
  return constant(recorder, operand.number, scalar_type(wide ? i64 : dtype), op, loc);
}

Handle index_operand(Recorder& recorder, const Operand& operand, const std::string& op, Loc loc) {
  Handle index = scalar_operand(recorder, operand, i32, op, loc);
  if (index.dtype != i32 && index.dtype != i64) {
    fail(loc, op,
         std::string("an index or bound must be i32 or i64, got ") + name(index.dtype) +
             "; convert it with .to(i32)");
  }
  return index;
}

Handle tile_operand(Recorder& recorder, const Operand& operand, const Type& type,
                    const std::string& op, Loc loc) {
  if (operand.is_number) return constant(recorder, operand.number, type, op, loc);
  recorder.require_live(operand.handle, op, loc);
  Handle value = operand.handle;
  if (kind(operand) == TypeKind::scalar) value = widen(value, type.dtype, loc);
  if (value.dtype != type.dtype) {
    fail(loc, op,
         std::string("expected ") + name(type.dtype) + ", got " + to_string(recorder.type(value)) +
             "; convert it with .to(" + name(type.dtype) + ")");
  }
  if (kind(operand) == TypeKind::scalar) return splat(value, type.shape, op, loc);
  const Shape shape = broadcast_shape(value.shape, type.shape, op, loc);
  if (shape != type.shape) {
    fail(loc, op,
         "a tile of shape " + to_string(value.shape) + " does not broadcast to " +
             to_string(type.shape));
  }
  return broadcast(value, type.shape, op, loc);
}

Pair match(const Operand& a, const Operand& b, const std::string& op, Loc loc) {
  const Operand& typed = a.is_number ? b : a;
  Recorder& recorder = recorder_of(typed.handle, op, loc);
  if (!a.is_number) recorder.require_live(a.handle, op, loc);
  if (!b.is_number) recorder.require_live(b.handle, op, loc);
  const bool a_tile = !a.is_number && kind(a) == TypeKind::tile;
  const bool b_tile = !b.is_number && kind(b) == TypeKind::tile;
  if (!a_tile && !b_tile) return match_scalars(recorder, a, b, op, loc);
  if (a_tile && b_tile) {
    if (a.handle.dtype != b.handle.dtype) fail_dtypes(a.handle, b.handle, op, loc);
    const Shape shape = broadcast_shape(a.handle.shape, b.handle.shape, op, loc);
    return {broadcast(a.handle, shape, op, loc), broadcast(b.handle, shape, op, loc)};
  }
  const Type type = recorder.type(a_tile ? a.handle : b.handle);
  if (a_tile) return {a.handle, tile_operand(recorder, b, type, op, loc)};
  return {tile_operand(recorder, a, type, op, loc), b.handle};
}

}  // namespace ligerdsl::detail
