// Mean and squared deviations of a row in one reduction. They are accurate even if the mean is
// large compared with the deviations.
//
// All lanes subtract the same shift, the mean of some elements of the row:
//   A = sum of x - shift,  B = sum of (x - shift)^2:  mean = shift + A / n,  m2 = B - A^2 / n.
//
// The subtraction in m2 loses digits only if the shift is far from the mean. One outlier among the
// v elements of the shift moves it by at most sqrt(n) / v standard deviations. The error of m2 is
// then up to n / v^2 roundings, so v grows with sqrt(n). The v elements come from several segments
// of the row. If all v were outliers, the error would be n / v roundings, or 2.6e-5 in rstd for
// 20480 columns of bf16.
//
// The stored mean comes from the plain sum of x, because shift + A / n loses digits if the mean is
// near 0.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Block of columns [rows, cols], in which the elements of each row are distributed over lanes. An
// element counts if `inside` [1, cols] is true; if `inside` is empty, all count. Elements that do
// not count must be 0. The CTAs of a cluster do not share tiles of several rows.
class LaneBlock {
 public:
  LaneBlock(KernelBuilder& k, const Tile& x, const Tile& inside, const BlockLanes& lanes)
      : x_(x),
        inside_(inside),
        split_(lanes),
        rows_(x.shape()[0]),
        lanes_(lanes.lanes * lanes.ctas) {
    const int64_t owned = lanes.fold * lanes.run;
    inverse_ = 1.0 / owned;
    zeros_ = k.zeros({rows_, lanes_}, f32);
    count_ = inside.empty()
                 ? k.full({rows_, lanes_}, static_cast<double>(owned), f32)
                 : over_lane(sum(folded(inside.to(f32)), 1)).broadcast_to({rows_, lanes_});
  }

  // Number of counted elements per lane, [rows, lanes].
  const Tile& count() const { return count_; }
  Tile elements() const { return folded(x_); }
  Tile zeros() const { return zeros_; }  // [rows, lanes]
  // Returns `value`, but 0 at elements that do not count.
  Tile counted(const Tile& value) const {
    return inside_.empty() ? value : where(folded(inside_), value, 0.0f);
  }
  // Return each lane's totals, [rows, lanes], of values and of their squares.
  Tile total(const Tile& value) const { return over_lane(sum(value, 1)); }
  Tile total_of_squares(const Tile& value) const {
    return over_lane(sum_products(value, value, 1));
  }
  // Returns each lane's mean, given its total.
  Tile mean(const Tile& total) const {
    return inside_.empty() ? total * inverse_ : fast_div(total, max(count_, 1.0f));
  }
  // Returns each lane's value in a shape that broadcasts to the lane's elements.
  Tile spread(const Tile& value) const {
    return value.reshape({rows_ * split_.ctas, 1, split_.lanes, 1});
  }

 private:
  Tile folded(const Tile& tile) const {
    return tile.reshape({tile.shape()[0] * split_.ctas, split_.fold, split_.lanes, split_.run});
  }
  Tile over_lane(const Tile& runs) const {
    Tile total = sum(runs, 2);
    return total.reshape({total.shape()[0] / split_.ctas, lanes_});
  }

  Tile x_, inside_, count_, zeros_;
  BlockLanes split_;
  int64_t rows_, lanes_;  // lanes of all CTAs
  double inverse_;
};

// Returns the number v of elements whose mean is a row's shift: v^2 >= n / 8.
inline int64_t shift_width(int64_t n) {
  int64_t v = 1;
  while (8 * v * v < n && 2 * v <= n) v *= 2;
  return v;
}

// Partial sums whose totals over lanes and blocks give a row's mean and m2.
struct ShiftedSums {
  Tile total, first, second;  // totals of x, x - shift, (x - shift)^2
};

// Returns each lane's partial sums, [rows, lanes], given the shift [rows, 1].
inline ShiftedSums lane_sums(const LaneBlock& block, const Tile& shift) {
  Tile away = block.counted(block.elements() - shift.reshape({shift.shape()[0], 1, 1, 1}));
  return {block.total(block.elements()), block.total(away), block.total_of_squares(away)};
}

// Partial sums of each lane for 16-bit elements, all [rows, lanes]. They take one addition per
// element less than ShiftedSums. They are relative to the lane's mean in its first block, and need
// not wait for the row's shift. The squares of a block are relative to the mean of that block,
// which is accurate enough because distinct 16-bit elements differ by at least 2^-11 of their size.
struct LaneSums {
  Tile count, shift;
  ShiftedSums sums;

  static LaneSums of(const LaneBlock& block) {
    Tile total = block.total(block.elements()), mean = block.mean(total);
    Tile m2 = block.total_of_squares(block.counted(block.elements() - block.spread(mean)));
    return {block.count(), mean, {total, block.zeros(), m2}};
  }

  // Returns these partial sums combined with those of `more`.
  LaneSums plus(const LaneSums& more) const {
    const ShiftedSums moved = more.relative_to(shift);
    return {count + more.count,
            shift,
            {sums.total + moved.total, sums.first + moved.first, sums.second + moved.second}};
  }

  ShiftedSums relative_to(const Tile& other) const {
    Tile by = shift - other, first = fma(by, count, sums.first);
    return {sums.total, first, fma(by, sums.first + first, sums.second)};
  }
};

}  // namespace ligerdsl::kernels
