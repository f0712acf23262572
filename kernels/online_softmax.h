// Running (maximum, sum of exponentials) of a row that is read block by block: one exponential per element.
//
// Everything is in base 2: an element x stands for 2^(c x) with c = scale * log2(e), so one fma and one exp2 do it:
//   2^(fma(x, c, -m))
// The fma rounds once, so subtracting the rounded maximum m costs no accuracy even when c x is in the thousands; and
// because every term uses the same m, its rounding cancels in every quotient of such terms.
//
// A block is a tile [fold, lanes]. Lanes run independently through the whole row (a thread of a GPU, a vector lane of a
// CPU: no communication inside the loop) and are combined once at the end.
#pragma once

#include <limits>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What to subtract for a maximum m: 0 for an empty part, whose terms are then 2^-inf = 0, not NaN.
inline Tile finite_base(const Tile& m) {
  return where(m == -kInfinity, 0.0f, m);
}
inline Scalar finite_base(const Scalar& m) {
  return where(m == -kInfinity, 0.0f, m);
}

// Adds a block [fold, lanes] to the lanes' (maximum m, sum s).
//   block_top [lanes]: the largest c x of each lane, -inf where nothing counts
//   power(base): 2^(c x - base) [fold, lanes], 0 where the element does not count; base is [1, lanes]
template <class Power>
Carry<Tile, Tile> online_block(const Tile& m, const Tile& s, const Tile& block_top, Power power) {
  Tile top = max(m, block_top);
  Tile base = finite_base(top);
  return carry(top, fma(s, fast_exp2(m - base), sum(power(base.expand_dims(0)), 0)));
}

// The whole row's (maximum, sum) from its lanes'.
inline Carry<Scalar, Scalar> combine_lanes(const Tile& m, const Tile& s) {
  Scalar top = reduce_max(m);
  Scalar base = finite_base(top);
  return carry(top, sum(s * fast_exp2(m - base)));
}

}  // namespace ligerdsl::kernels
