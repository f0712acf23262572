// Operators and elementwise functions.
#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

using detail::AttrKey;
using detail::Attrs;
using detail::fail;
using detail::Handle;
using detail::is_plain_integer;
using detail::OpCode;
using detail::Operand;
using detail::Pair;
using detail::Recorder;
using detail::recorder_of;
using detail::require_dtype;
using program::Dtypes;
using program::info;
using program::Predicate;

// Checks a constant shift distance. At run time, a negative or too large distance gives an
// unspecified result; the interpreter rejects it.
void require_shift(const Operand& by, DType dtype, const std::string& op, Loc loc) {
  int64_t bits = 0;
  if (by.is_number) {
    bits = by.number.integer;
  } else {
    const auto& integers = by.handle.recorder->integers;
    const auto known = integers.find(by.handle.id);
    if (known == integers.end()) return;
    bits = known->second;
  }
  const int64_t width = 8 * size_of(dtype);
  if (bits >= 0 && bits < width) return;
  fail(loc, op,
       std::string("expected a shift of ") + name(dtype) + " by 0 to " + std::to_string(width - 1) +
           " bits, got " + std::to_string(bits));
}

Handle binary(OpCode code, Dtypes rule, const Operand& a, const Operand& b, const std::string& op,
              Loc loc, Attrs attrs = {}) {
  for (const Operand* operand : {&a, &b}) {
    if (!operand->is_number && operand->handle.recorder)
      require_dtype(operand->handle, rule, op, loc);
  }
  const Pair pair = match(a, b, op, loc);
  Recorder& recorder = *pair.a.recorder;
  if (code == OpCode::shl || code == OpCode::shr || code == OpCode::lshr)
    require_shift(b, pair.a.dtype, op, loc);
  return recorder.emit_one(code, {pair.a, pair.b}, recorder.type(pair.a), std::move(attrs), loc);
}

Handle compare(Predicate predicate, const Operand& a, const Operand& b, const std::string& op,
               Loc loc) {
  const Pair pair = match(a, b, op, loc);
  const bool ordering = predicate != Predicate::eq && predicate != Predicate::ne;
  require_dtype(pair.a, ordering || is_fp8(pair.a.dtype) ? Dtypes::numbers : Dtypes::any, op, loc);
  Recorder& recorder = *pair.a.recorder;
  detail::Type type = recorder.type(pair.a);
  type.dtype = i1;
  return recorder.emit_one(OpCode::compare, {pair.a, pair.b}, type,
                           {{AttrKey::predicate, static_cast<int64_t>(predicate)}}, loc);
}

Handle unary(OpCode code, const Value& x, const std::string& op, Loc loc, bool fast = false) {
  Recorder& recorder = recorder_of(x.handle(), op, loc);
  recorder.require_live(x.handle(), op, loc);
  require_dtype(x.handle(), info(code).dtypes, op, loc);
  Attrs attrs;
  if (fast) attrs.push_back({AttrKey::fast, int64_t{1}});
  return recorder.emit_one(code, {x.handle()}, recorder.type(x.handle()), std::move(attrs), loc);
}

Handle negate(const Operand& a) {
  Recorder& recorder = recorder_of(a.handle, "operator-", a.loc);
  recorder.require_live(a.handle, "operator-", a.loc);
  require_dtype(a.handle, info(OpCode::neg).dtypes, "operator-", a.loc);
  return recorder.emit_one(OpCode::neg, {a.handle}, recorder.type(a.handle), {}, a.loc);
}

// Records ~x as x ^ -1, and !x as x ^ true.
Handle invert(const Operand& a, Dtypes rule, const std::string& op) {
  Recorder& recorder = recorder_of(a.handle, op, a.loc);
  recorder.require_live(a.handle, op, a.loc);
  require_dtype(a.handle, rule, op, a.loc);
  const detail::Type& type = recorder.type(a.handle);
  const Handle ones =
      constant(recorder, detail::Number(type.dtype == i1 ? 1 : -1), type, op, a.loc);
  return recorder.emit_one(OpCode::bit_xor, {a.handle, ones}, recorder.type(a.handle), {}, a.loc);
}

Handle same_bits(const Value& x, DType dtype, Loc loc) {
  Recorder& recorder = recorder_of(x.handle(), "bitcast", loc);
  recorder.require_live(x.handle(), "bitcast", loc);
  if (!program::canBitcast(x.dtype(), dtype)) {
    const std::string to = std::string(".to(") + name(dtype) + ")";
    if (x.dtype() == i1 || dtype == i1) fail(loc, "bitcast", "i1 cannot be bitcast; use " + to);
    fail(loc, "bitcast",
         std::string(name(x.dtype())) + " has " + std::to_string(8 * size_of(x.dtype())) +
             " bits and " + name(dtype) + " has " + std::to_string(8 * size_of(dtype)) +
             ", expected equal widths; use " + to + " to convert values");
  }
  if (x.dtype() == dtype) return x.handle();
  detail::Type type = recorder.type(x.handle());
  type.dtype = dtype;
  return recorder.emit_one(OpCode::bitcast, {x.handle()}, type, {}, loc);
}

// Converts the three operands to one type and records an fma.
Handle fused(const Value& a, const Operand& b, const Operand& c, Loc loc) {
  Recorder& recorder = recorder_of(a.handle(), "fma", loc);
  recorder.require_live(a.handle(), "fma", loc);
  require_dtype(a.handle(), info(OpCode::fma).dtypes, "fma", loc);
  const Pair ab = match(Operand(a, loc), b, "fma", loc);
  const Pair ac = match(Operand(Scalar(ab.a), loc), c, "fma", loc);
  const Pair bc = match(Operand(Scalar(ab.b), loc), Operand(Scalar(ac.a), loc), "fma", loc);
  return recorder.emit_one(OpCode::fma, {ac.a, bc.a, ac.b}, recorder.type(ac.a), {}, loc);
}

Handle choose(const Value& condition, const Operand& a, const Operand& b, Loc loc) {
  Recorder& recorder = recorder_of(condition.handle(), "where", loc);
  recorder.require_live(condition.handle(), "where", loc);
  require_dtype(condition.handle(), Dtypes::i1, "where", loc);
  if (a.is_number && b.is_number) {
    fail(loc, "where",
         "both values are numbers, so the result has no dtype; make one of them with "
         "KernelBuilder::constant or full");
  }
  Pair values = match(a, b, "where", loc);
  const bool condition_tile = recorder.type(condition.handle()).kind == detail::TypeKind::tile;
  const bool value_tile = recorder.type(values.a).kind == detail::TypeKind::tile;
  Handle test = condition.handle();
  if (!condition_tile && value_tile) test = splat(test, values.a.shape, "where", loc);
  if (condition_tile && !value_tile) {
    values.a = splat(values.a, test.shape, "where", loc);
    values.b = splat(values.b, test.shape, "where", loc);
  }
  if (test.shape != values.a.shape) {
    // Broadcast the condition and the values to one shape.
    const Shape before = values.a.shape;
    if (test.shape.size() != before.size()) {
      fail(loc, "where",
           "the condition has shape " + detail::to_string(test.shape) + " and the values " +
               detail::to_string(before) +
               ", expected equal ranks; raise the lower rank with .expand_dims(axis)");
    }
    Shape shape = before;
    for (size_t i = 0; i < shape.size(); ++i) shape[i] = shape[i] == 1 ? test.shape[i] : shape[i];
    test = broadcast(test, shape, "where", loc);
    values.a = broadcast(values.a, shape, "where", loc);
    values.b = broadcast(values.b, shape, "where", loc);
  }
  return recorder.emit_one(OpCode::select, {test, values.a, values.b}, recorder.type(values.a), {},
                           loc);
}

// Implementations of the operators. An operator has the source location of its right operand.
template <OpCode code>
Handle arithmetic(const Operand& a, const Operand& b, const char* op) {
  return binary(code, info(code).dtypes, a, b, op, b.loc);
}
template <OpCode code>
Handle logic(const Operand& a, const Operand& b, const char* op) {
  return binary(code, Dtypes::i1, a, b, op, b.loc);
}
// Records `a op= b`. Fails if the result differs from `a` in dtype or shape.
template <OpCode code, class T>
T& assign(T& a, const Operand& b, const char* op) {
  const T result(binary(code, info(code).dtypes, Operand(a, b.loc), b, op, b.loc));
  if (result.dtype() != a.dtype() || result.shape() != a.shape()) {
    const Recorder& recorder = *result.handle().recorder;
    std::string symbol = std::string(op).substr(std::string("operator").size());
    symbol.pop_back();  // the =
    fail(b.loc, op,
         "the result is " + detail::to_string(recorder.type(result.handle())) +
             ", but the left side is " + detail::to_string(recorder.type(a.handle())) +
             "; write a = a " + symbol + " b");
  }
  return a = result;
}
// Implementations of the functions. Their callers pass the source location.
template <OpCode code>
Handle function(const Operand& a, const Operand& b, const char* op, Loc loc) {
  return binary(code, info(code).dtypes, a, b, op, loc);
}
template <OpCode code>
Handle fast_function(const Operand& a, const Operand& b, const char* op, Loc loc) {
  return binary(code, Dtypes::f32, a, b, op, loc, {{AttrKey::fast, int64_t{1}}});
}
template <Predicate predicate>
Handle comparison(const Operand& a, const Operand& b, const char* op) {
  return compare(predicate, a, b, op, b.loc);
}

}  // namespace

// Defines the six overloads of `operator op`. The other arguments name the function that records
// it.
#define LIGERDSL_OPERATOR(op, ...)                    \
  Tile operator op(At<Tile> a, At<Tile> b) {          \
    return Tile(__VA_ARGS__(a, b, "operator" #op));   \
  }                                                   \
  Tile operator op(At<Tile> a, ScalarArg b) {         \
    return Tile(__VA_ARGS__(a, b, "operator" #op));   \
  }                                                   \
  Tile operator op(ScalarArg a, At<Tile> b) {         \
    return Tile(__VA_ARGS__(a, b, "operator" #op));   \
  }                                                   \
  Scalar operator op(At<Scalar> a, At<Scalar> b) {    \
    return Scalar(__VA_ARGS__(a, b, "operator" #op)); \
  }                                                   \
  Scalar operator op(At<Scalar> a, NumberArg b) {     \
    return Scalar(__VA_ARGS__(a, b, "operator" #op)); \
  }                                                   \
  Scalar operator op(NumberArg a, At<Scalar> b) {     \
    return Scalar(__VA_ARGS__(a, b, "operator" #op)); \
  }

LIGERDSL_OPERATOR(+, arithmetic<OpCode::add>)
LIGERDSL_OPERATOR(-, arithmetic<OpCode::sub>)
LIGERDSL_OPERATOR(*, arithmetic<OpCode::mul>)
LIGERDSL_OPERATOR(/, arithmetic<OpCode::div>)
LIGERDSL_OPERATOR(%, arithmetic<OpCode::rem>)
LIGERDSL_OPERATOR(&, arithmetic<OpCode::bit_and>)
LIGERDSL_OPERATOR(|, arithmetic<OpCode::bit_or>)
LIGERDSL_OPERATOR(^, arithmetic<OpCode::bit_xor>)
LIGERDSL_OPERATOR(<<, arithmetic<OpCode::shl>)
LIGERDSL_OPERATOR(>>, arithmetic<OpCode::shr>)
LIGERDSL_OPERATOR(&&, logic<OpCode::bit_and>)
LIGERDSL_OPERATOR(||, logic<OpCode::bit_or>)
LIGERDSL_OPERATOR(==, comparison<Predicate::eq>)
LIGERDSL_OPERATOR(!=, comparison<Predicate::ne>)
LIGERDSL_OPERATOR(<, comparison<Predicate::lt>)
LIGERDSL_OPERATOR(<=, comparison<Predicate::le>)
LIGERDSL_OPERATOR(>, comparison<Predicate::gt>)
LIGERDSL_OPERATOR(>=, comparison<Predicate::ge>)

#define LIGERDSL_ASSIGNMENT(op, code)                  \
  Tile& operator op(Tile& a, TileArg b) {              \
    return assign<OpCode::code>(a, b, "operator" #op); \
  }                                                    \
  Scalar& operator op(Scalar& a, ScalarArg b) {        \
    return assign<OpCode::code>(a, b, "operator" #op); \
  }

LIGERDSL_ASSIGNMENT(+=, add)
LIGERDSL_ASSIGNMENT(-=, sub)
LIGERDSL_ASSIGNMENT(*=, mul)
LIGERDSL_ASSIGNMENT(/=, div)
LIGERDSL_ASSIGNMENT(%=, rem)
LIGERDSL_ASSIGNMENT(&=, bit_and)
LIGERDSL_ASSIGNMENT(|=, bit_or)
LIGERDSL_ASSIGNMENT(^=, bit_xor)
LIGERDSL_ASSIGNMENT(<<=, shl)
LIGERDSL_ASSIGNMENT(>>=, shr)

Tile operator-(At<Tile> a) {
  return Tile(negate(a));
}
Scalar operator-(At<Scalar> a) {
  return Scalar(negate(a));
}
Tile operator~(At<Tile> a) {
  return Tile(invert(a, Dtypes::integers_and_i1, "operator~"));
}
Scalar operator~(At<Scalar> a) {
  return Scalar(invert(a, Dtypes::integers_and_i1, "operator~"));
}
Tile operator!(At<Tile> a) {
  return Tile(invert(a, Dtypes::i1, "operator!"));
}
Scalar operator!(At<Scalar> a) {
  return Scalar(invert(a, Dtypes::i1, "operator!"));
}

#define LIGERDSL_UNARY(fn, code, fast)                     \
  Tile fn(const Tile& x, Loc loc) {                        \
    return Tile(unary(OpCode::code, x, #fn, loc, fast));   \
  }                                                        \
  Scalar fn(const Scalar& x, Loc loc) {                    \
    return Scalar(unary(OpCode::code, x, #fn, loc, fast)); \
  }

LIGERDSL_UNARY(abs, abs, false)
#define LIGERDSL_MATH(name, ...) LIGERDSL_UNARY(name, name, false)
#define LIGERDSL_FAST_MATH(name, ...) \
  LIGERDSL_UNARY(name, name, false) LIGERDSL_UNARY(fast_##name, name, true)
#include "ligerdsl/dsl/ops.def"

#define LIGERDSL_BINARY(fn, ...)                                            \
  Tile fn(const Tile& a, const Tile& b, Loc loc) {                          \
    return Tile(__VA_ARGS__(Operand(a, loc), Operand(b, loc), #fn, loc));   \
  }                                                                         \
  Tile fn(const Tile& a, ScalarArg b, Loc loc) {                            \
    return Tile(__VA_ARGS__(Operand(a, loc), b, #fn, loc));                 \
  }                                                                         \
  Tile fn(ScalarArg a, const Tile& b, Loc loc) {                            \
    return Tile(__VA_ARGS__(a, Operand(b, loc), #fn, loc));                 \
  }                                                                         \
  Scalar fn(const Scalar& a, const Scalar& b, Loc loc) {                    \
    return Scalar(__VA_ARGS__(Operand(a, loc), Operand(b, loc), #fn, loc)); \
  }                                                                         \
  Scalar fn(const Scalar& a, NumberArg b, Loc loc) {                        \
    return Scalar(__VA_ARGS__(Operand(a, loc), b, #fn, loc));               \
  }                                                                         \
  Scalar fn(NumberArg a, const Scalar& b, Loc loc) {                        \
    return Scalar(__VA_ARGS__(a, Operand(b, loc), #fn, loc));               \
  }

LIGERDSL_BINARY(min, function<OpCode::min>)
LIGERDSL_BINARY(max, function<OpCode::max>)
LIGERDSL_BINARY(pow, function<OpCode::pow>)
LIGERDSL_BINARY(fast_div, fast_function<OpCode::div>)
LIGERDSL_BINARY(lshr, function<OpCode::lshr>)
LIGERDSL_BINARY(udiv, function<OpCode::udiv>)
LIGERDSL_BINARY(urem, function<OpCode::urem>)

namespace {

Handle clamp_handle(const Value& x, const Operand& lo, const Operand& hi, Loc loc) {
  const Handle low =
      binary(OpCode::max, info(OpCode::max).dtypes, Operand(x, loc), lo, "clamp", loc);
  return binary(OpCode::min, info(OpCode::min).dtypes, Operand(Value(low), loc), hi, "clamp", loc);
}

}  // namespace

Tile clamp(const Tile& x, TileArg lo, TileArg hi, Loc loc) {
  return Tile(clamp_handle(x, lo, hi, loc));
}
Scalar clamp(const Scalar& x, ScalarArg lo, ScalarArg hi, Loc loc) {
  return Scalar(clamp_handle(x, lo, hi, loc));
}

Tile bitcast(const Tile& x, DType dtype, Loc loc) {
  return Tile(same_bits(x, dtype, loc));
}
Scalar bitcast(const Scalar& x, DType dtype, Loc loc) {
  return Scalar(same_bits(x, dtype, loc));
}

Tile fma(const Tile& a, TileArg b, TileArg c, Loc loc) {
  return Tile(fused(a, b, c, loc));
}
Scalar fma(const Scalar& a, ScalarArg b, ScalarArg c, Loc loc) {
  return Scalar(fused(a, b, c, loc));
}

Tile where(const Tile& condition, TileArg a, TileArg b, Loc loc) {
  return Tile(choose(condition, a, b, loc));
}
Tile where(const Scalar& condition, const Tile& a, TileArg b, Loc loc) {
  return Tile(choose(condition, Operand(a, loc), b, loc));
}
Tile where(const Scalar& condition, ScalarArg a, const Tile& b, Loc loc) {
  return Tile(choose(condition, a, Operand(b, loc), loc));
}
Scalar where(const Scalar& condition, ScalarArg a, ScalarArg b, Loc loc) {
  return Scalar(choose(condition, a, b, loc));
}

}  // namespace ligerdsl
