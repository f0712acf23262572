// Running (maximum, sum of exponentials) of a row that is read block by block: one exponential per element.
//
// Everything is in base 2: an element x stands for 2^(c x) with c = scale * log2(e), so one fma and one exp2 do it:
//   2^(fma(x, c, -m))
// The fma rounds once, so subtracting the rounded maximum m costs no accuracy even when c x is in the thousands; and
// because every term uses the same m, its rounding cancels in every quotient of such terms.
//
// The elements of a block are dealt to lanes (BlockLanes), which run independently through the whole row (a thread of a
// GPU, a vector lane of a CPU: no communication inside the loop) and are combined once at the end.
#pragma once

#include <algorithm>
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

// How a block is dealt. The CTAs of a cluster have equal stretches of it, in which element ((f * lanes) + lane) * run +
// r is element (f, r) of its lane. On a GPU a lane is a thread and a run one vector of it, or one element where blocks
// do not begin at whole vectors; on a CPU, where lanes are what a vector holds, runs have one element.
struct BlockLanes {
  int64_t fold = 1, lanes = 1, run = 1, ctas = 1;

  Shape shape() const {
    Shape shape{fold, lanes};
    if (run > 1) shape.push_back(run);
    if (ctas > 1) shape.insert(shape.begin(), ctas);
    return shape;
  }
  // One value of each lane.
  Shape carried() const { return ctas == 1 ? Shape{lanes} : Shape{ctas, lanes}; }

  // Tiles of shape() to carried().
  Tile largest(const Tile& t) const { return reduce_max(run == 1 ? t : reduce_max(t, run_axis()), fold_axis()); }
  Tile total(const Tile& t) const { return sum(run == 1 ? t : sum(t, run_axis()), fold_axis()); }
  // The other way, to go with tiles of shape().
  Tile spread(const Tile& t) const {
    Tile rows = t.expand_dims(fold_axis());
    return run == 1 ? rows : rows.expand_dims(run_axis());
  }
  // Each lane's largest value and the lowest position in the block that has it (i32).
  Carry<Tile, Tile> largest_with_position(KernelBuilder& k, const Tile& t) const {
    Tile lane = k.arange(lanes);
    Tile run_of_lane = k.arange(fold).expand_dims(1);
    if (ctas > 1) {
      lane = (k.arange(ctas) * fold * lanes).expand_dims(1) + lane.expand_dims(0);
      run_of_lane = run_of_lane.expand_dims(0);
    }
    if (run == 1) {
      auto [value, f] = max_with_index(t, fold_axis());
      return carry(value, f * lanes + lane);
    }
    auto [in_run, r] = max_with_index(t, run_axis());
    auto [value, f] = max_with_index(in_run, fold_axis());
    Tile first = where(run_of_lane == f.expand_dims(fold_axis()), r, 0);
    return carry(value, (f * lanes + lane) * run + sum(first, fold_axis()));
  }

 private:
  int fold_axis() const { return ctas > 1 ? 1 : 0; }
  int run_axis() const { return fold_axis() + 2; }
};

// Adds a block to the lanes' (maximum m, sum s).
//   block_top [lanes]: the largest c x of each lane, -inf where nothing counts
//   power(base): 2^(c x - base) of the block, 0 where the element does not count; base goes with the block's tiles
template <class Power>
Carry<Tile, Tile> online_block(const BlockLanes& lanes, const Tile& m, const Tile& s, const Tile& block_top,
                               Power power) {
  Tile top = max(m, block_top);
  Tile base = finite_base(top);
  return carry(top, fma(s, fast_exp2(m - base), lanes.total(power(lanes.spread(base)))));
}

// The whole row's (maximum, sum) from its lanes'. Pairs are combined, so that threads exchange values once.
inline Carry<Scalar, Scalar> combine_lanes(const Tile& m, const Tile& s) {
  auto [top, total] = reduce({m, s}, [](Scalar m0, Scalar s0, Scalar m1, Scalar s1) {
    Scalar both = max(m0, m1), base = finite_base(both);
    return carry(both, fma(s0, fast_exp2(m0 - base), s1 * fast_exp2(m1 - base)));
  });
  return carry(top, total);
}

}  // namespace ligerdsl::kernels
