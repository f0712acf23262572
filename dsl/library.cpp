// Functions on top of the ops. Every step passes the caller's location on.
#include "ligerdsl/dsl/library.h"

#include <cmath>
#include <utility>

#include "recorder.h"

namespace ligerdsl {
namespace {

// Operators with the caller's location.
template <class T>
At<T> at(const T& value, Loc loc) {
  return At<T>(value, loc);
}
ScalarArg number(double value, Loc loc) {
  return ScalarArg(value, loc);
}

Tile with_axis(const Tile& reduced, int axis, const Tile& like, Loc loc) {
  return reduced.expand_dims(axis < 0 ? axis + like.rank() : axis, loc);
}

// a * b, free to be contracted with the additions of the sum that takes it.
Tile product_for_sum(const Tile& a, const Tile& b, Loc loc) {
  int& exact = a.handle().recorder->exact_depth;
  const int depth = std::exchange(exact, 0);
  const Tile product = at(a, loc) * at(b, loc);
  exact = depth;
  return product;
}

// Replaces -infinity by 0 as the reference of a difference, so that (-inf) - (-inf) never arises.
Scalar finite_maximum(const Scalar& m, Loc loc) {
  const Scalar none = at(m, loc) == NumberArg(-INFINITY, loc);
  return where(none, number(0.0, loc), m, loc);
}
Tile finite_maximum(const Tile& m, Loc loc) {
  const Tile none = at(m, loc) == number(-INFINITY, loc);
  return where(none, TileArg(0.0, loc), TileArg(m, loc), loc);
}

}  // namespace

Scalar cdiv(const Scalar& a, ScalarArg b, Loc loc) {
  const detail::Pair pair = detail::match(At<Scalar>(a, loc), b, "cdiv", loc);
  if (!detail::is_plain_integer(pair.a.dtype)) {
    detail::fail(loc, "cdiv", std::string("expected integers, got ") + name(pair.a.dtype));
  }
  if (b.is_number && b.number.integer <= 0) detail::fail(loc, "cdiv", "the divisor must be positive");
  const Scalar x(pair.a), y(pair.b);
  const Scalar less_one = at(y, loc) - NumberArg(1, loc);
  const Scalar raised = at(x, loc) + at(less_one, loc);
  return at(raised, loc) / at(y, loc);
}

Scalar mean(const Tile& x, Loc loc) {
  const Scalar total = sum(detail::widened_to_add(x, loc), loc);
  const Scalar quotient = at(total, loc) / NumberArg(static_cast<double>(x.size()), loc);
  return quotient.to(x.dtype(), loc);
}

namespace {

// Operands of one unsigned function, brought to one integer type.
template <class T>
std::pair<T, T> unsigned_pair(const T& a, const detail::Operand& b, const char* op, Loc loc,
                              program::Dtypes dtypes = program::Dtypes::integers) {
  const detail::Pair pair = detail::match(At<T>(a, loc), b, op, loc);
  if (!program::accepts(dtypes, pair.a.dtype))
    detail::fail(loc, op, std::string("expected ") + program::wanted(dtypes) + ", got " + name(pair.a.dtype));
  return {T(pair.a), T(pair.b)};
}

// Number types that T's operators take.
template <class T>
using Literal = std::conditional_t<std::is_same_v<T, Tile>, ScalarArg, NumberArg>;

// Order of unsigned numbers is that of signed ones whose highest bit is the other way round.
template <class T>
T signed_order(const T& x, Loc loc) {
  return at(x, loc) ^ Literal<T>(least_of(x.dtype()), loc);
}

template <class T>
T high_product(const T& a, const T& b, Loc loc) {
  using Number = Literal<T>;
  constexpr int64_t kWord = 0xffffffff;
  const auto low = [&](const T& x) -> T { return at(x, loc) & Number(kWord, loc); };
  const auto high = [&](const T& x) -> T { return lshr(x, Number(32, loc), loc); };
  const auto times = [&](const T& x, const T& y) -> T { return at(x, loc) * at(y, loc); };
  const auto plus = [&](const T& x, const T& y) -> T { return at(x, loc) + at(y, loc); };
  if (a.dtype() != i64) {
    const int width = static_cast<int>(8 * size_of(a.dtype()));
    const auto wide = [&](const T& x) -> T { return at(x.to(i64, loc), loc) & Number((int64_t{1} << width) - 1, loc); };
    return lshr(times(wide(a), wide(b)), Number(width, loc), loc).to(a.dtype(), loc);
  }
  const T a0 = low(a), a1 = high(a), b0 = low(b), b1 = high(b);
  const T first = times(a1, b0), second = times(a0, b1);
  const T middle = plus(plus(high(times(a0, b0)), low(first)), low(second));
  return plus(plus(times(a1, b1), high(first)), plus(high(second), high(middle)));
}

Tile as_numbers(const Tile& x, const char* op, Loc loc) {
  if (x.dtype() != i1)
    detail::fail(loc, op, std::string("got ") + name(x.dtype()) + ", expected " + program::wanted(program::Dtypes::i1));
  return x.to(i32, loc);
}

}  // namespace

#define LIGERDSL_UNSIGNED_COMPARISON(fn, op)                               \
  Tile fn(const Tile& a, TileArg b, Loc loc) {                             \
    const auto [x, y] = unsigned_pair(a, b, #fn, loc);                     \
    return at(signed_order(x, loc), loc) op at(signed_order(y, loc), loc); \
  }                                                                        \
  Scalar fn(const Scalar& a, ScalarArg b, Loc loc) {                       \
    const auto [x, y] = unsigned_pair(a, b, #fn, loc);                     \
    return at(signed_order(x, loc), loc) op at(signed_order(y, loc), loc); \
  }

LIGERDSL_UNSIGNED_COMPARISON(ult, <)
LIGERDSL_UNSIGNED_COMPARISON(ule, <=)
LIGERDSL_UNSIGNED_COMPARISON(ugt, >)
LIGERDSL_UNSIGNED_COMPARISON(uge, >=)

Tile umulhi(const Tile& a, TileArg b, Loc loc) {
  const auto [x, y] = unsigned_pair(a, b, "umulhi", loc, program::Dtypes::words);
  return high_product(x, y, loc);
}
Scalar umulhi(const Scalar& a, ScalarArg b, Loc loc) {
  const auto [x, y] = unsigned_pair(a, b, "umulhi", loc, program::Dtypes::words);
  return high_product(x, y, loc);
}

Scalar any(const Tile& x, Loc loc) {
  return reduce_max(as_numbers(x, "any", loc), loc).to(i1, loc);
}
Tile any(const Tile& x, int axis, Loc loc) {
  return reduce_max(as_numbers(x, "any", loc), axis, loc).to(i1, loc);
}
Scalar all(const Tile& x, Loc loc) {
  return reduce_min(as_numbers(x, "all", loc), loc).to(i1, loc);
}
Tile all(const Tile& x, int axis, Loc loc) {
  return reduce_min(as_numbers(x, "all", loc), axis, loc).to(i1, loc);
}

Tile mean(const Tile& x, int axis, Loc loc) {
  const Tile total = sum(detail::widened_to_add(x, loc), axis, loc);
  const double count = static_cast<double>(x.shape()[axis < 0 ? axis + x.rank() : axis]);
  const Tile quotient = at(total, loc) / number(count, loc);
  return quotient.to(x.dtype(), loc);
}

Scalar sum_products(const Tile& a, const Tile& b, Loc loc) {
  return sum(product_for_sum(detail::widened_to_add(a, loc), detail::widened_to_add(b, loc), loc), loc)
      .to(a.dtype(), loc);
}

Tile sum_products(const Tile& a, const Tile& b, int axis, Loc loc) {
  return sum(product_for_sum(detail::widened_to_add(a, loc), detail::widened_to_add(b, loc), loc), axis, loc)
      .to(a.dtype(), loc);
}

Tile relu(const Tile& x, Loc loc) {
  return max(x, ScalarArg(0, loc), loc);
}

Tile silu(const Tile& x, Loc loc) {
  const Tile gate = sigmoid(x, loc);
  return at(x, loc) * at(gate, loc);
}

Tile gelu_tanh(const Tile& x, Loc loc) {
  const Tile square = at(x, loc) * at(x, loc);
  const Tile poly = fma(square, TileArg(0.044715, loc), TileArg(1.0, loc), loc);
  const Tile scaled = at(x, loc) * number(0.7978845608028654, loc);
  const Tile inner = at(scaled, loc) * at(poly, loc);
  const Tile half = at(x, loc) * number(0.5, loc);
  const Tile bell = at(tanh(inner, loc), loc) + number(1.0, loc);
  return at(half, loc) * at(bell, loc);
}

Tile gelu_erf(const Tile& x, Loc loc) {
  const Tile inner = at(x, loc) * number(0.7071067811865476, loc);
  const Tile half = at(x, loc) * number(0.5, loc);
  const Tile bell = at(erf(inner, loc), loc) + number(1.0, loc);
  return at(half, loc) * at(bell, loc);
}

Tile softmax(const Tile& x, Loc loc) {
  const Scalar m = finite_maximum(reduce_max(x, loc), loc);
  const Tile shifted = at(x, loc) - ScalarArg(m, loc);
  const Tile e = exp(shifted, loc);
  const Scalar total = sum(e, loc);
  return at(e, loc) / ScalarArg(total, loc);
}

Tile softmax(const Tile& x, int axis, Loc loc) {
  const Tile m = with_axis(finite_maximum(reduce_max(x, axis, loc), loc), axis, x, loc);
  const Tile shifted = at(x, loc) - at(m, loc);
  const Tile e = exp(shifted, loc);
  const Tile total = with_axis(sum(e, axis, loc), axis, x, loc);
  return at(e, loc) / at(total, loc);
}

Scalar log_sum_exp(const Tile& x, Loc loc) {
  const Scalar m = finite_maximum(reduce_max(x, loc), loc);
  const Tile shifted = at(x, loc) - ScalarArg(m, loc);
  const Scalar total = log(sum(exp(shifted, loc), loc), loc);
  return at(m, loc) + at(total, loc);
}

Tile log_sum_exp(const Tile& x, int axis, Loc loc) {
  const Tile m = finite_maximum(reduce_max(x, axis, loc), loc);
  const Tile shifted = at(x, loc) - at(with_axis(m, axis, x, loc), loc);
  const Tile total = log(sum(exp(shifted, loc), axis, loc), loc);
  return at(m, loc) + at(total, loc);
}

OnlineSum combine(const OnlineSum& a, const OnlineSum& b, Loc loc) {
  const Scalar m = max(a.m, b.m, loc);
  const Scalar reference = finite_maximum(m, loc);
  const Scalar da = at(a.m, loc) - at(reference, loc);
  const Scalar db = at(b.m, loc) - at(reference, loc);
  const Scalar sa = at(a.s, loc) * at(exp(da, loc), loc);
  const Scalar sb = at(b.s, loc) * at(exp(db, loc), loc);
  return {m, at(sa, loc) + at(sb, loc)};
}

OnlineSum accumulate(const OnlineSum& state, const Tile& x, Loc loc) {
  const Scalar block = reduce_max(x, loc);
  const Scalar m = max(state.m, block, loc);
  const Scalar reference = finite_maximum(m, loc);
  const Tile shifted = at(x, loc) - ScalarArg(reference, loc);
  const Scalar part = sum(exp(shifted, loc), loc);
  const Scalar drop = at(state.m, loc) - at(reference, loc);
  const Scalar kept = at(state.s, loc) * at(exp(drop, loc), loc);
  return {m, at(kept, loc) + at(part, loc)};
}

Scalar log_sum_exp(const OnlineSum& state, Loc loc) {
  const Scalar tail = log(state.s, loc);
  return at(state.m, loc) + at(tail, loc);
}

OnlineSums accumulate(const OnlineSums& state, const Tile& x, int64_t run, Loc loc) {
  for (const Tile* tile : {&state.m, &state.s, &x}) detail::recorder_of(tile->handle(), "accumulate", loc);
  const int64_t lanes = state.m.size();
  if (state.m.rank() != 1 || state.s.shape() != state.m.shape()) {
    detail::fail(loc, "accumulate",
                 "m and s of shapes " + detail::to_string(state.m.shape()) + " and " +
                     detail::to_string(state.s.shape()) + "; expected [lanes] both");
  }
  if (run < 1) detail::fail(loc, "accumulate", "runs of " + std::to_string(run) + " elements; expected 1 or more");
  if (x.size() % (lanes * run) != 0) {
    detail::fail(loc, "accumulate",
                 "a tile of " + std::to_string(x.size()) + " elements for " + std::to_string(lanes) + " lanes" +
                     (run == 1 ? "; expected a multiple of the lanes"
                               : " in runs of " + std::to_string(run) + "; expected a multiple of " +
                                     std::to_string(lanes * run)));
  }
  const Tile dealt = x.reshape({x.size() / (lanes * run), lanes, run}, loc);
  const Tile m = max(state.m, reduce_max(reduce_max(dealt, 2, loc), 0, loc), loc);
  const Tile reference = finite_maximum(m, loc);
  const Tile shifted = at(dealt, loc) - at(reference.expand_dims(0, loc).expand_dims(2, loc), loc);
  const Tile part = sum(sum(exp(shifted, loc), 2, loc), 0, loc);
  const Tile drop = at(state.m, loc) - at(reference, loc);
  const Tile kept = at(state.s, loc) * at(exp(drop, loc), loc);
  return {m, at(kept, loc) + at(part, loc)};
}

OnlineSum combine(const OnlineSums& state, Loc loc) {
  auto [m, s] = reduce(
      {state.m, state.s},
      [loc](Scalar am, Scalar as, Scalar bm, Scalar bs) {
        const OnlineSum both = combine(OnlineSum{am, as}, OnlineSum{bm, bs}, loc);
        return carry(both.m, both.s);
      },
      loc);
  return {m, s};
}

}  // namespace ligerdsl
