// Library functions that consist of ops. Each recorded op has the caller's source location.
#include "ligerdsl/dsl/library.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "ligerdsl/dsl/online_sum.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

using program::Dtypes;

ScalarArg number(double value, Loc loc) {
  return ScalarArg(value, loc);
}

void require(const Tile& x, Dtypes rule, const char* op, Loc loc) {
  detail::require_operand(x.handle(), rule, op, loc);
}

Tile with_axis(const Tile& reduced, int axis, const Tile& like, Loc loc) {
  return reduced.expand_dims(axis < 0 ? axis + like.rank() : axis, loc);
}

// Returns a * b without no_contract, so that multiplication and later addition may become an fma.
Tile product_for_sum(const Tile& a, const Tile& b, Loc loc) {
  int& exact = a.handle().recorder->exact_depth;
  const int depth = std::exchange(exact, 0);
  const Tile product = at(a, loc) * at(b, loc);
  exact = depth;
  return product;
}

}  // namespace

Scalar cdiv(const Scalar& a, ScalarArg b, Loc loc) {
  const detail::Pair pair = detail::match(At<Scalar>(a, loc), b, "cdiv", loc);
  if (!detail::is_plain_integer(pair.a.dtype)) {
    detail::fail(loc, "cdiv", std::string("expected integers, got ") + name(pair.a.dtype));
  }
  if (b.is_number && b.number.integer <= 0)
    detail::fail(loc, "cdiv",
                 "the divisor must be positive, got " + std::to_string(b.number.integer));
  const Scalar x(pair.a), y(pair.b);
  const Scalar less_one = at(y, loc) - NumberArg(1, loc);
  const Scalar raised = at(x, loc) + at(less_one, loc);
  return at(raised, loc) / at(y, loc);
}

TilePlace grouped_tiles(const Scalar& program, const Scalar& tile_rows, const Scalar& tile_columns,
                        int64_t group, Loc loc) {
  if (group < 1 || group > std::numeric_limits<int32_t>::max())
    detail::fail(loc, "grouped_tiles",
                 "expected a group of 1 to 2147483647 rows of tiles, got " + std::to_string(group));
  const DType wide = program.dtype() == i64 ? i64 : i32;
  const Scalar number = program.to(wide, loc), rows = tile_rows.to(wide, loc),
               columns = tile_columns.to(i32, loc);
  const NumberArg together(group, loc);
  const Scalar of_group = Scalar(at(columns, loc) * together).to(wide, loc);
  const Scalar before = at(Scalar(at(number, loc) / at(of_group, loc)), loc) * together;
  // `left` is at least 1, because it is a divisor and a pipelined loop also computes the place of
  // the tile after the last.
  const Scalar left =
      max(min(Scalar(at(rows, loc) - at(before, loc)), together, loc), NumberArg(1, loc), loc);
  // A group has fewer than 2^31 tiles, so i32 divisors suffice. A 64-bit division takes ten times
  // as long on a GPU.
  const Scalar here = left.to(i32, loc),
               within = Scalar(at(number, loc) % at(of_group, loc)).to(i32, loc);
  const Scalar down = Scalar(at(within, loc) % at(here, loc)).to(wide, loc);
  return {at(before, loc) + at(down, loc), at(within, loc) / at(here, loc)};
}

Scalar mean(const Tile& x, Loc loc) {
  require(x, Dtypes::floats, "mean", loc);
  const Scalar total = sum(detail::widened_to_add(x, loc), loc);
  const Scalar quotient = at(total, loc) / NumberArg(static_cast<double>(x.size()), loc);
  return quotient.to(x.dtype(), loc);
}

namespace {

// Converts the operands of an unsigned function to one integer type.
template <class T>
std::pair<T, T> unsigned_pair(const T& a, const detail::Operand& b, const char* op, Loc loc,
                              program::Dtypes dtypes = program::Dtypes::integers) {
  const detail::Pair pair = detail::match(At<T>(a, loc), b, op, loc);
  if (!program::accepts(dtypes, pair.a.dtype))
    detail::fail(
        loc, op,
        std::string("expected ") + program::wanted(dtypes) + ", got " + name(pair.a.dtype));
  return {T(pair.a), T(pair.b)};
}

// Type of a C++ number as an operand of T's operators.
template <class T>
using Literal = std::conditional_t<std::is_same_v<T, Tile>, ScalarArg, NumberArg>;

// Flips the highest bit, so that the result's signed order is the unsigned order of x.
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
    const auto wide = [&](const T& x) -> T {
      return at(x.to(i64, loc), loc) & Number((int64_t{1} << width) - 1, loc);
    };
    return lshr(times(wide(a), wide(b)), Number(width, loc), loc).to(a.dtype(), loc);
  }
  const T a0 = low(a), a1 = high(a), b0 = low(b), b1 = high(b);
  const T first = times(a1, b0), second = times(a0, b1);
  const T middle = plus(plus(high(times(a0, b0)), low(first)), low(second));
  return plus(plus(times(a1, b1), high(first)), plus(high(second), high(middle)));
}

Tile as_numbers(const Tile& x, const char* op, Loc loc) {
  require(x, Dtypes::i1, op, loc);
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
  require(x, Dtypes::floats, "mean", loc);
  const Tile total = sum(detail::widened_to_add(x, loc), axis, loc);
  const double count = static_cast<double>(x.shape()[axis < 0 ? axis + x.rank() : axis]);
  const Tile quotient = at(total, loc) / number(count, loc);
  return quotient.to(x.dtype(), loc);
}

Scalar sum_products(const Tile& a, const Tile& b, Loc loc) {
  for (const Tile* x : {&a, &b}) require(*x, Dtypes::numbers, "sum_products", loc);
  return sum(product_for_sum(detail::widened_to_add(a, loc), detail::widened_to_add(b, loc), loc),
             loc)
      .to(a.dtype(), loc);
}

Tile sum_products(const Tile& a, const Tile& b, int axis, Loc loc) {
  for (const Tile* x : {&a, &b}) require(*x, Dtypes::numbers, "sum_products", loc);
  return sum(product_for_sum(detail::widened_to_add(a, loc), detail::widened_to_add(b, loc), loc),
             axis, loc)
      .to(a.dtype(), loc);
}

Tile relu(const Tile& x, Loc loc) {
  require(x, Dtypes::numbers, "relu", loc);
  return max(x, ScalarArg(0, loc), loc);
}

Tile silu(const Tile& x, Loc loc) {
  require(x, Dtypes::f32, "silu", loc);
  const Tile gate = sigmoid(x, loc);
  return at(x, loc) * at(gate, loc);
}

Tile gelu_tanh(const Tile& x, Loc loc) {
  require(x, Dtypes::f32, "gelu_tanh", loc);
  const Tile square = at(x, loc) * at(x, loc);
  const Tile poly = fma(square, TileArg(0.044715, loc), TileArg(1.0, loc), loc);
  const Tile scaled = at(x, loc) * number(0.7978845608028654, loc);
  const Tile inner = at(scaled, loc) * at(poly, loc);
  const Tile half = at(x, loc) * number(0.5, loc);
  const Tile bell = at(tanh(inner, loc), loc) + number(1.0, loc);
  return at(half, loc) * at(bell, loc);
}

Tile gelu_erf(const Tile& x, Loc loc) {
  require(x, Dtypes::f32, "gelu_erf", loc);
  const Tile inner = at(x, loc) * number(0.7071067811865476, loc);
  const Tile half = at(x, loc) * number(0.5, loc);
  const Tile bell = at(erf(inner, loc), loc) + number(1.0, loc);
  return at(half, loc) * at(bell, loc);
}

Tile softmax(const Tile& x, Loc loc) {
  require(x, Dtypes::f32, "softmax", loc);
  const Scalar m = finite_maximum(reduce_max(x, loc), loc);
  const Tile shifted = at(x, loc) - ScalarArg(m, loc);
  const Tile e = exp(shifted, loc);
  const Scalar total = sum(e, loc);
  return at(e, loc) / ScalarArg(total, loc);
}

Tile softmax(const Tile& x, int axis, Loc loc) {
  require(x, Dtypes::f32, "softmax", loc);
  const Tile m = with_axis(finite_maximum(reduce_max(x, axis, loc), loc), axis, x, loc);
  const Tile shifted = at(x, loc) - at(m, loc);
  const Tile e = exp(shifted, loc);
  const Tile total = with_axis(sum(e, axis, loc), axis, x, loc);
  return at(e, loc) / at(total, loc);
}

Scalar log_sum_exp(const Tile& x, Loc loc) {
  require(x, Dtypes::f32, "log_sum_exp", loc);
  const Scalar m = finite_maximum(reduce_max(x, loc), loc);
  const Tile shifted = at(x, loc) - ScalarArg(m, loc);
  const Scalar total = log(sum(exp(shifted, loc), loc), loc);
  return at(m, loc) + at(total, loc);
}

Tile log_sum_exp(const Tile& x, int axis, Loc loc) {
  require(x, Dtypes::f32, "log_sum_exp", loc);
  const Tile m = finite_maximum(reduce_max(x, axis, loc), loc);
  const Tile shifted = at(x, loc) - at(with_axis(m, axis, x, loc), loc);
  const Tile total = log(sum(exp(shifted, loc), axis, loc), loc);
  return at(m, loc) + at(total, loc);
}

}  // namespace ligerdsl
