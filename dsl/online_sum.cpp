// Online log-sum-exp. Each recorded op has the caller's source location.
#include "ligerdsl/dsl/online_sum.h"

#include <cmath>

#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

using program::Dtypes;

// Returns the factor that rescales s from base m to another base.
template <class T>
T rescaled(const T& m, const T& base, Loc loc) {
  return fast_exp2(T(at(m, loc) - at(base, loc)), loc);
}

// A block of a row, with the options of accumulate().
struct Block {
  const Tile& x;
  const OnlineOptions& options;
  Tile counts;  // mask with x's shape; empty if all elements count
  Loc loc;

  Tile where_counted(const Tile& t, double otherwise) const {
    return counts.empty() ? t : where(counts, TileArg(t, loc), TileArg(otherwise, loc), loc);
  }
  bool scale_is_positive() const {
    return options.scale_log2.is_number && options.scale_log2.number.real > 0;
  }
  // Returns the maximum of c * x over the counted elements. `reduce` computes a tile's maximum.
  template <class Reduce>
  auto largest(Reduce reduce) const {
    const ScalarArg& c = options.scale_log2;
    if (!scale_is_positive()) return reduce(where_counted(at(x, loc) * c, -INFINITY));
    const auto top = reduce(where_counted(x, -INFINITY));
    using Number =
        std::conditional_t<std::is_same_v<decltype(reduce(x)), Tile>, ScalarArg, NumberArg>;
    return decltype(reduce(x))(at(top, loc) * Number(c.number.real, loc));
  }
  // Returns 2^(c * x - base), or 0 in elements that do not count.
  Tile terms(const TileArg& minus_base) const {
    TileArg c(0, loc);
    static_cast<detail::Operand&>(c) = options.scale_log2;
    return where_counted(fast_exp2(fma(x, c, minus_base, loc), loc), 0.0);
  }
};

// Fails unless the options have the required dtypes, and `counts` one element per element of x.
void require_options(const OnlineOptions& options, const Tile& x, Loc loc) {
  if (!options.scale_log2.is_number)
    detail::require_operand(options.scale_log2.handle, Dtypes::f32, "accumulate", loc);
  if (options.counts.empty()) return;
  detail::require_operand(options.counts.handle(), Dtypes::i1, "accumulate", loc);
  if (options.counts.size() != x.size())
    detail::fail(loc, "accumulate",
                 "expected `counts` with " + std::to_string(x.size()) +
                     " elements, as in the tile " + detail::to_string(x.shape()) + ", got shape " +
                     detail::to_string(options.counts.shape()));
}

void require_state(const OnlineSum& state, const char* op, Loc loc) {
  for (const Scalar* scalar : {&state.m, &state.s})
    detail::require_operand(scalar->handle(), Dtypes::f32, op, loc);
}
// Checks the dtype and the shape of m and s.
void require_state(const OnlineSums& state, const BlockLanes& lanes, const char* op, Loc loc) {
  for (const Tile* tile : {&state.m, &state.s})
    detail::require_operand(tile->handle(), Dtypes::f32, op, loc);
  const Shape carried = lanes.carried();
  if (state.m.shape() == carried && state.s.shape() == carried) return;
  detail::fail(loc, op,
               "expected m and s of shape " + detail::to_string(carried) +
                   ", which lanes.carried() returns, got " + detail::to_string(state.m.shape()) +
                   " and " + detail::to_string(state.s.shape()));
}

}  // namespace

Scalar finite_maximum(const Scalar& m, Loc loc) {
  const Scalar none = at(m, loc) == NumberArg(-INFINITY, loc);
  return where(none, ScalarArg(0.0, loc), ScalarArg(m, loc), loc);
}
Tile finite_maximum(const Tile& m, Loc loc) {
  const Tile none = at(m, loc) == ScalarArg(-INFINITY, loc);
  return where(none, TileArg(0.0, loc), TileArg(m, loc), loc);
}

OnlineSum combine(const OnlineSum& a, const OnlineSum& b, Loc loc) {
  for (const OnlineSum* part : {&a, &b}) require_state(*part, "combine", loc);
  const Scalar m = max(a.m, b.m, loc), base = finite_maximum(m, loc);
  const Scalar second = at(b.s, loc) * at(rescaled(b.m, base, loc), loc);
  return {m, fma(a.s, ScalarArg(rescaled(a.m, base, loc), loc), ScalarArg(second, loc), loc)};
}

OnlineSum accumulate(const OnlineSum& state, const Tile& x, const OnlineOptions& options, Loc loc) {
  require_state(state, "accumulate", loc);
  detail::require_operand(x.handle(), Dtypes::f32, "accumulate", loc);
  require_options(options, x, loc);
  const Tile counts = options.counts.empty() ? Tile() : options.counts.reshape(x.shape(), loc);
  const Block block{x, options, counts, loc};
  const Scalar m =
      max(state.m, block.largest([&](const Tile& t) { return reduce_max(t, loc); }), loc);
  const Scalar base = finite_maximum(m, loc);
  const Scalar part = sum(block.terms(TileArg(Scalar(-at(base, loc)), loc)), loc);
  return {m, fma(state.s, ScalarArg(rescaled(state.m, base, loc), loc), ScalarArg(part, loc), loc)};
}

Scalar log_sum_exp(const OnlineSum& state, Loc loc) {
  require_state(state, "log_sum_exp", loc);
  const Scalar exponent = at(state.m, loc) + at(log2(state.s, loc), loc);
  return at(exponent, loc) * NumberArg(std::numbers::ln2, loc);
}

OnlineSums accumulate_terms(const OnlineSums& state, const BlockLanes& lanes, const Tile& largest,
                            const std::function<Tile(const Tile& base)>& terms, Loc loc) {
  require_state(state, lanes, "accumulate_terms", loc);
  const Tile m = max(state.m, largest, loc), base = finite_maximum(m, loc);
  const Tile part = lanes.sum(terms(lanes.expand(base, loc)), loc);
  return {m, fma(state.s, TileArg(rescaled(state.m, base, loc), loc), TileArg(part, loc), loc)};
}

OnlineSums accumulate(const OnlineSums& state, const BlockLanes& lanes, const Tile& x,
                      const OnlineOptions& options, Loc loc) {
  require_state(state, lanes, "accumulate", loc);
  detail::require_operand(x.handle(), Dtypes::f32, "accumulate", loc);
  require_options(options, x, loc);
  const Tile distributed = detail::distribute(lanes, x, "accumulate", loc);
  const Tile counts = options.counts.empty()
                          ? Tile()
                          : detail::distribute(lanes, options.counts, "accumulate", loc);
  const Block block{distributed, options, counts, loc};
  const Tile largest = block.largest([&](const Tile& t) { return lanes.reduce_max(t, loc); });
  return accumulate_terms(
      state, lanes, largest,
      [&](const Tile& base) { return block.terms(TileArg(Tile(-at(base, loc)), loc)); }, loc);
}

OnlineSum combine(const OnlineSums& state, Loc loc) {
  for (const Tile* tile : {&state.m, &state.s})
    detail::require_operand(tile->handle(), Dtypes::f32, "combine", loc);
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
