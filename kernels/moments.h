// Mean and squared deviations of a row in one reduction, exact also when the mean is large beside the deviations.
//
// A lane's elements are taken relative to their own mean. The lanes of 16-bit rows are then added up relative to a
// shift that all lanes know, the mean of some elements of the row: with a = mean of the lane - shift,
//   A = sum of n a,  B = sum of m2 + n a^2:  m2 of the row = B - A^2 / n,
// and the mean comes from the plain sum. The difference cancels only so far as the shift is far from the mean: an
// outlier among v elements moves it by at most sqrt(n) / v standard deviations, which costs m2 up to n / v^2 roundings
// of its size, so v grows with sqrt(n). Where a stretch of the row is odd, elements of other stretches hold against it:
// were all v of them outliers, it would cost n / v roundings, 2.6e-5 of rstd measured at 20480 columns. Elements of 16
// bits have digits to spare for that: they deviate from each other by 2^-11 of their size or not at all.
//
// The lanes of f32 rows are merged as parts (mean, low, m2, count): `count` elements whose mean is mean + low (low is
// what rounding cut off the mean) and whose squared deviations from it add up to m2. Two parts merge by Chan's formula:
//   n = na + nb,  d = mean_b - mean_a:  mean = mean_a + d nb / n,  m2 = m2_a + m2_b + d^2 na nb / n
// Nothing is ever subtracted that is much larger than the deviations themselves. What b adds to m2_a is summed first:
// part by part, much of it may be too small for a large m2_a to notice.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// How a tile's columns are dealt to lanes. The CTAs of a cluster have equal stretches; in a stretch lane l owns `fold`
// runs of `vector` neighbours, run f begins at (f * lanes + l) * vector. Tiles of several rows are not shared by CTAs.
struct LaneShape {
  int64_t fold = 1, vector = 1, ctas = 1;
};

// A block of columns [rows, cols] as lanes own it. An element counts where `inside` [1, cols] is true, everywhere if it
// is empty; others must read as 0.
class LaneBlock {
 public:
  LaneBlock(KernelBuilder& k, const Tile& x, const Tile& inside, LaneShape shape)
      : x_(x), inside_(inside), shape_(shape), rows_(x.shape()[0]), lanes_(x.shape()[1] / (shape.fold * shape.vector)) {
    const int64_t owned = shape.fold * shape.vector;
    inverse_ = 1.0 / owned;
    count_ = inside.empty() ? k.full({rows_, lanes_}, static_cast<double>(owned), f32)
                            : over_lane(sum(folded(inside.to(f32)), 1)).broadcast_to({rows_, lanes_});
  }

  // How many elements of each lane count, [rows, lanes].
  const Tile& count() const { return count_; }
  Tile elements() const { return folded(x_); }
  // Elements' values, 0 where they do not count.
  Tile counted(const Tile& value) const { return inside_.empty() ? value : where(folded(inside_), value, 0.0f); }
  // The lanes' sums [rows, lanes] of elements' values, and of their squares.
  Tile total(const Tile& value) const { return over_lane(sum(value, 1)); }
  Tile total_of_squares(const Tile& value) const { return over_lane(sum_products(value, value, 1)); }
  // Totals to means.
  Tile mean(const Tile& total) const { return inside_.empty() ? total * inverse_ : fast_div(total, max(count_, 1.0f)); }
  // A value of each lane, to go with its elements.
  Tile spread(const Tile& value) const { return value.reshape({rows_ * shape_.ctas, 1, lanes_ / shape_.ctas, 1}); }

 private:
  Tile folded(const Tile& tile) const {
    return tile.reshape({tile.shape()[0] * shape_.ctas, shape_.fold, lanes_ / shape_.ctas, shape_.vector});
  }
  Tile over_lane(const Tile& runs) const {
    Tile total = sum(runs, 2);
    return total.reshape({total.shape()[0] / shape_.ctas, lanes_});
  }

  Tile x_, inside_, count_;
  LaneShape shape_;
  int64_t rows_, lanes_;
  double inverse_;
};

// How many elements of a row make its shift: v^2 >= n / 8.
inline int64_t shift_width(int64_t n) {
  int64_t v = 1;
  while (8 * v * v < n && 2 * v <= n) v *= 2;
  return v;
}

// What adds up, over lanes and over blocks, to the mean and m2 of 16-bit rows.
struct ShiftedSums {
  Tile total, first, second;  // of x, n a, m2 + n a^2
};

// Each lane's part [rows, lanes]; shift [rows, 1].
inline ShiftedSums lane_sums(const LaneBlock& block, const Tile& shift) {
  Tile total = block.total(block.elements()), mean = block.mean(total);
  Tile away = mean - shift, first = away * block.count();
  Tile m2 = block.total_of_squares(block.counted(block.elements() - block.spread(mean)));
  return {total, first, fma(first, away, m2)};
}

template <class T>  // Scalar or Tile
struct Moments {
  T mean, low, m2, count;
};

// b may be empty (all zero). So may a, but then the result has no more digits of the mean than f32.
template <class T>
Moments<T> merged(const Moments<T>& a, const Moments<T>& b) {
  T count = a.count + b.count;
  T share = fast_div(b.count, max(count, 1.0f));
  T delta = (b.mean - a.mean) + (b.low - a.low);
  T step = delta * share;
  T mean = a.mean + step;
  T m2 = a.m2 + fma(delta * delta, a.count * share, b.m2);
  return {mean, a.low + (step - (mean - a.mean)), m2, count};
}

// Each lane's part [rows, lanes].
inline Moments<Tile> lane_moments(const LaneBlock& block) {
  Tile mean = block.mean(block.total(block.elements()));
  Tile from_mean = block.elements() - block.spread(mean);
  Tile low = block.mean(block.total(block.counted(from_mean)));
  Tile deviation = block.counted(from_mean - block.spread(low));
  return {mean, low, block.total_of_squares(deviation), block.count()};
}

// The parts [rows, lanes] of each row merged: [rows].
inline Moments<Tile> row_moments(const Moments<Tile>& lanes) {
  auto [mean, low, m2, count] =
      reduce({lanes.mean, lanes.low, lanes.m2, lanes.count}, 1,
             [](Scalar mean_a, Scalar low_a, Scalar m2_a, Scalar count_a, Scalar mean_b, Scalar low_b, Scalar m2_b,
                Scalar count_b) {
               const auto both = merged<Scalar>({mean_a, low_a, m2_a, count_a}, {mean_b, low_b, m2_b, count_b});
               return carry(both.mean, both.low, both.m2, both.count);
             });
  return {mean, low, m2, count};
}

}  // namespace ligerdsl::kernels
