// Reductions and scans. Each has two forms. With an axis (-1 is the last), a tile of rank r >= 2
// becomes a tile of rank r - 1. Without an axis, all elements become one scalar.
//
//   Scalar total = sum(x);
//   Tile   rows  = reduce_max(x, 1);
//
//   // Several values at once, with the author's combiner. It computes on scalars, and is
//   // associative and commutative up to rounding.
//
//   auto [m, s] = reduce({m_tile, s_tile}, [](Scalar m0, Scalar s0, Scalar m1, Scalar s1) {
//     Scalar m = max(m0, m1);
//     return carry(m, s0 * exp(m0 - m) + s1 * exp(m1 - m));
//   });
#ifndef LIGERDSL_DSL_REDUCE_H_
#define LIGERDSL_DSL_REDUCE_H_

#include <array>
#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// Values carried through loops, branches and combiners. It is a plain tuple, so structured bindings
// unpack it.
template <class... T>
using Carry = std::tuple<T...>;

template <class... T>
Carry<T...> carry(T... values) {
  return {std::move(values)...};
}

// Returns the sum in the tile's type. 16-bit floats are accumulated in f32 and rounded once;
// integers wrap.
Scalar sum(const Tile& x, Loc loc = Here::current());
Tile sum(const Tile& x, int axis, Loc loc = Here::current());
Scalar reduce_max(const Tile& x, Loc loc = Here::current());
Tile reduce_max(const Tile& x, int axis, Loc loc = Here::current());
Scalar reduce_min(const Tile& x, Loc loc = Here::current());
Tile reduce_min(const Tile& x, int axis, Loc loc = Here::current());
inline Scalar max(const Tile& x, Loc loc = Here::current()) {
  return reduce_max(x, loc);
}
inline Scalar min(const Tile& x, Loc loc = Here::current()) {
  return reduce_min(x, loc);
}

// Return the index (i32) of the largest (smallest) element: the lowest index on ties, unspecified
// for NaN. Without an axis it is the row-major index.
Scalar argmax(const Tile& x, Loc loc = Here::current());
Tile argmax(const Tile& x, int axis, Loc loc = Here::current());
Scalar argmin(const Tile& x, Loc loc = Here::current());
Tile argmin(const Tile& x, int axis, Loc loc = Here::current());
// Return the largest (smallest) element and its index in one pass.
Carry<Scalar, Scalar> max_with_index(const Tile& x, Loc loc = Here::current());
Carry<Tile, Tile> max_with_index(const Tile& x, int axis, Loc loc = Here::current());
Carry<Scalar, Scalar> min_with_index(const Tile& x, Loc loc = Here::current());
Carry<Tile, Tile> min_with_index(const Tile& x, int axis, Loc loc = Here::current());

// Returns the inclusive running sum along an axis, accumulated as in sum().
Tile cumsum(const Tile& x, int axis = 0, bool reverse = false, Loc loc = Here::current());

namespace detail {

// Function that records a region from its arguments and returns the values that it yields.
using RegionBody = std::function<std::vector<Handle>(const std::vector<Handle>&)>;

inline constexpr int kAllAxes = INT32_MAX;  // flattens the tiles first; results are scalars

std::vector<Handle> custom_reduce(std::vector<Handle> tiles, int axis, const RegionBody& combiner,
                                  Loc loc);
std::vector<Handle> custom_scan(std::vector<Handle> tiles, int axis, bool reverse,
                                const RegionBody& combiner, Loc loc);

template <size_t N>
std::vector<Handle> handles(const Tile (&tiles)[N]) {
  std::vector<Handle> out;
  for (const Tile& tile : tiles) out.push_back(tile.handle());
  return out;
}

template <class T, size_t N, size_t... I>
std::array<T, N> to_array(const std::vector<Handle>& values, std::index_sequence<I...>) {
  return {T(values[I])...};
}

// Wraps an author's combiner (2N scalars -> N scalars).
template <size_t N, class Combiner>
RegionBody combiner_body(Combiner& combine) {
  return [&combine](const std::vector<Handle>& arguments) {
    auto result = [&]<size_t... I>(std::index_sequence<I...>) {
      return combine(Scalar(arguments[I])...);
    }
    (std::make_index_sequence<2 * N>());
    std::vector<Handle> out;
    if constexpr (std::is_same_v<decltype(result), Scalar>) {
      static_assert(N == 1, "the combiner must return carry(...) with one scalar per reduced tile");
      out.push_back(result.handle());
    } else {
      static_assert(std::tuple_size_v<decltype(result)> == N,
                    "the combiner must return carry(...) with one scalar per reduced tile");
      std::apply([&](const auto&... scalar) { (out.push_back(Scalar(scalar).handle()), ...); },
                 result);
    }
    return out;
  };
}

}  // namespace detail

// Reduces N tiles of one shape over `axis` with a combiner (a0, ..., b0, ...) -> carry(c0, ...)
// over scalars.
template <size_t N, class Combiner>
std::array<Tile, N> reduce(const Tile (&tiles)[N], int axis, Combiner combine,
                           Loc loc = Here::current()) {
  auto out =
      detail::custom_reduce(detail::handles(tiles), axis, detail::combiner_body<N>(combine), loc);
  return detail::to_array<Tile, N>(out, std::make_index_sequence<N>());
}

// Reduces N tiles of one shape over all elements.
template <size_t N, class Combiner>
std::array<Scalar, N> reduce(const Tile (&tiles)[N], Combiner combine, Loc loc = Here::current()) {
  auto out = detail::custom_reduce(detail::handles(tiles), detail::kAllAxes,
                                   detail::combiner_body<N>(combine), loc);
  return detail::to_array<Scalar, N>(out, std::make_index_sequence<N>());
}

// Inclusive scan of N tiles along `axis` with an associative combiner.
template <size_t N, class Combiner>
std::array<Tile, N> scan(const Tile (&tiles)[N], int axis, Combiner combine, bool reverse = false,
                         Loc loc = Here::current()) {
  auto out = detail::custom_scan(detail::handles(tiles), axis, reverse,
                                 detail::combiner_body<N>(combine), loc);
  return detail::to_array<Tile, N>(out, std::make_index_sequence<N>());
}

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_REDUCE_H_
