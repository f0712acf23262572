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

}  // namespace ligerdsl
