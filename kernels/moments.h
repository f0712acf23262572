// Mean and squared deviations of a row in one reduction, exact also when the mean is large beside the deviations.
//
// A part of a row is (mean, low, m2, count): `count` elements whose mean is mean + low (low is what rounding cut off
// the mean) and whose squared deviations from it add up to m2. Two parts merge by Chan's formula:
//   n = na + nb,  d = mean_b - mean_a:  mean = mean_a + d nb / n,  m2 = m2_a + m2_b + d^2 na nb / n
// Nothing is ever subtracted that is much larger than the deviations themselves.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

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
  return {mean, a.low + (step - (mean - a.mean)), fma(delta * delta, a.count * share, a.m2 + b.m2), count};
}

// The parts [rows, lanes] of a tile x [rows, fold * lanes]: lane l owns elements l, lanes + l, ... An element counts
// where `inside` [1, fold * lanes] is true, everywhere if it is empty; others must read as 0.
inline Moments<Tile> lane_moments(KernelBuilder& k, const Tile& x, const Tile& inside, int64_t fold) {
  const int64_t rows = x.shape()[0], lanes = x.shape()[1] / fold;
  const Shape folded{rows, fold, lanes};
  auto counted = [&](const Tile& value) {
    return inside.empty() ? value : where(inside.reshape({1, fold, lanes}), value, 0.0f);
  };
  Tile count = inside.empty() ? k.full({rows, lanes}, static_cast<double>(fold), f32)
                              : sum(inside.to(f32).reshape({1, fold, lanes}), 1).broadcast_to({rows, lanes});
  if (fold == 1) return {x, k.zeros({rows, lanes}, f32), k.zeros({rows, lanes}, f32), count};
  auto mean_of = [&](const Tile& value) { return fast_div(sum(value, 1), max(count, 1.0f)); };
  Tile elements = x.reshape(folded);
  Tile mean = mean_of(elements);
  Tile from_mean = elements - mean.expand_dims(1);
  Tile low = mean_of(counted(from_mean));
  Tile deviation = counted(from_mean - low.expand_dims(1));
  return {mean, low, sum(deviation * deviation, 1), count};
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
