// Mean and squared deviations of a row in one reduction, exact also when the mean is large beside the deviations.
//
// Elements are taken relative to a shift that all lanes know, the mean of some elements of the row:
//   A = sum of x - shift,  B = sum of (x - shift)^2:  mean = shift + A / n,  m2 = B - A^2 / n.
// The difference cancels only so far as the shift is far from the mean: an outlier among v elements moves it by at most
// sqrt(n) / v standard deviations, which costs m2 up to n / v^2 roundings of its size, so v grows with sqrt(n). Where a
// stretch of the row is odd, elements of other stretches hold against it: were all v of them outliers, it would cost
// n / v roundings, 2.6e-5 of rstd measured at 20480 columns of bf16.
//
// What is written as the mean comes from the plain sum of x: of a mean near 0 shift + A / n has lost digits.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// A block of columns [rows, cols] as lanes own each row of it. An element counts where `inside` [1, cols] is true,
// everywhere if it is empty; others must read as 0. Tiles of several rows are not shared by CTAs.
class LaneBlock {
 public:
  LaneBlock(KernelBuilder& k, const Tile& x, const Tile& inside, const BlockLanes& lanes)
      : x_(x), inside_(inside), dealt_(lanes), rows_(x.shape()[0]), lanes_(lanes.lanes * lanes.ctas) {
    const int64_t owned = lanes.fold * lanes.run;
    inverse_ = 1.0 / owned;
    zeros_ = k.zeros({rows_, lanes_}, f32);
    count_ = inside.empty() ? k.full({rows_, lanes_}, static_cast<double>(owned), f32)
                            : over_lane(sum(folded(inside.to(f32)), 1)).broadcast_to({rows_, lanes_});
  }

  // How many elements of each lane count, [rows, lanes].
  const Tile& count() const { return count_; }
  Tile elements() const { return folded(x_); }
  Tile zeros() const { return zeros_; }  // [rows, lanes]
  // Elements' values, 0 where they do not count.
  Tile counted(const Tile& value) const { return inside_.empty() ? value : where(folded(inside_), value, 0.0f); }
  // The lanes' sums [rows, lanes] of elements' values, and of their squares.
  Tile total(const Tile& value) const { return over_lane(sum(value, 1)); }
  Tile total_of_squares(const Tile& value) const { return over_lane(sum_products(value, value, 1)); }
  // Totals to means.
  Tile mean(const Tile& total) const { return inside_.empty() ? total * inverse_ : fast_div(total, max(count_, 1.0f)); }
  // A value of each lane, to go with its elements.
  Tile spread(const Tile& value) const { return value.reshape({rows_ * dealt_.ctas, 1, dealt_.lanes, 1}); }

 private:
  Tile folded(const Tile& tile) const {
    return tile.reshape({tile.shape()[0] * dealt_.ctas, dealt_.fold, dealt_.lanes, dealt_.run});
  }
  Tile over_lane(const Tile& runs) const {
    Tile total = sum(runs, 2);
    return total.reshape({total.shape()[0] / dealt_.ctas, lanes_});
  }

  Tile x_, inside_, count_, zeros_;
  BlockLanes dealt_;
  int64_t rows_, lanes_;  // of all CTAs
  double inverse_;
};

// How many elements of a row make its shift: v^2 >= n / 8.
inline int64_t shift_width(int64_t n) {
  int64_t v = 1;
  while (8 * v * v < n && 2 * v <= n) v *= 2;
  return v;
}

// What adds up, over lanes and over blocks, to the mean and m2 of a row.
struct ShiftedSums {
  Tile total, first, second;  // of x, x - shift, (x - shift)^2
};

// Each lane's part [rows, lanes]; shift [rows, 1].
inline ShiftedSums lane_sums(const LaneBlock& block, const Tile& shift) {
  Tile away = block.counted(block.elements() - shift.reshape({shift.shape()[0], 1, 1, 1}));
  return {block.total(block.elements()), block.total(away), block.total_of_squares(away)};
}

// The same of elements of 16 bits with one addition less, and without waiting for the row's shift: relative to the
// lane's mean in its first block, all [rows, lanes]. Within a block squares are relative to the block's mean, which is
// near enough to what it stands for: such elements deviate from each other by 2^-11 of their size or not at all.
struct LaneSums {
  Tile count, shift;
  ShiftedSums sums;

  static LaneSums of(const LaneBlock& block) {
    Tile total = block.total(block.elements()), mean = block.mean(total);
    Tile m2 = block.total_of_squares(block.counted(block.elements() - block.spread(mean)));
    return {block.count(), mean, {total, block.zeros(), m2}};
  }

  // With those of another block.
  LaneSums plus(const LaneSums& more) const {
    const ShiftedSums moved = more.relative_to(shift);
    return {
        count + more.count, shift, {sums.total + moved.total, sums.first + moved.first, sums.second + moved.second}};
  }

  ShiftedSums relative_to(const Tile& other) const {
    Tile by = shift - other, first = fma(by, count, sums.first);
    return {sums.total, first, fma(by, sums.first + first, sums.second)};
  }
};

}  // namespace ligerdsl::kernels
