// Mean and squared deviations of a row in one reduction, exact also when the mean is large beside the deviations.
//
// A part of a row is (mean, low, m2, count): `count` elements whose mean is mean + low (low is what rounding cut off
// the mean) and whose squared deviations from it add up to m2. Two parts merge by Chan's formula:
//   n = na + nb,  d = mean_b - mean_a:  mean = mean_a + d nb / n,  m2 = m2_a + m2_b + d^2 na nb / n
// Nothing is ever subtracted that is much larger than the deviations themselves. What b adds to m2_a is summed first:
// part by part, much of it may be too small for a large m2_a to notice.
//
// Elements of 16 bits deviate from each other by 2^-11 of their size or not at all, far more than what rounding cuts
// off a mean in f32: for them low is left out (an empty handle).
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
  T delta = b.mean - a.mean;
  if (!a.low.empty()) delta = delta + (b.low - a.low);
  T step = delta * share;
  T mean = a.mean + step;
  T m2 = a.m2 + fma(delta * delta, a.count * share, b.m2);
  return {mean, a.low.empty() ? T() : a.low + (step - (mean - a.mean)), m2, count};
}

// How a tile's columns are dealt to lanes. The CTAs of a cluster have equal stretches; in a stretch lane l owns `fold`
// runs of `vector` neighbours, run f begins at (f * lanes + l) * vector. Tiles of several rows are not shared by CTAs.
struct LaneShape {
  int64_t fold = 1, vector = 1, ctas = 1;
};

// The parts [rows, lanes] of a tile x [rows, cols]. An element counts where `inside` [1, cols] is true, everywhere if
// it is empty; others must read as 0. `compensated`: keep the low parts of means.
inline Moments<Tile> lane_moments(KernelBuilder& k, const Tile& x, const Tile& inside, LaneShape shape,
                                  bool compensated) {
  const int64_t rows = x.shape()[0], owned = shape.fold * shape.vector, lanes = x.shape()[1] / owned;
  const int64_t stretches = rows * shape.ctas, lanes_each = lanes / shape.ctas;
  auto folded = [&](const Tile& tile) {
    return tile.reshape({tile.shape()[0] * shape.ctas, shape.fold, lanes_each, shape.vector});
  };
  auto counted = [&](const Tile& value) { return inside.empty() ? value : where(folded(inside), value, 0.0f); };
  // [stretches, lanes_each, vector]
  auto over_lane = [&](const Tile& runs) {
    Tile total = sum(runs, 2);
    return total.reshape({total.shape()[0] / shape.ctas, lanes});
  };
  Tile zeros = k.zeros({rows, lanes}, f32);
  Tile count = inside.empty() ? k.full({rows, lanes}, static_cast<double>(owned), f32)
                              : over_lane(sum(folded(inside.to(f32)), 1)).broadcast_to({rows, lanes});
  if (owned == 1) return {x, compensated ? zeros : Tile(), zeros, count};
  auto mean_of = [&](const Tile& value) {
    Tile total = over_lane(sum(value, 1));
    return inside.empty() ? total * (1.0 / owned) : fast_div(total, max(count, 1.0f));
  };
  auto spread = [&](const Tile& value) { return value.reshape({stretches, 1, lanes_each, 1}); };
  Tile elements = folded(x);
  Tile mean = mean_of(elements);
  Tile from_mean = elements - spread(mean), low;
  if (compensated) {
    low = mean_of(counted(from_mean));
    from_mean = from_mean - spread(low);
  }
  Tile deviation = counted(from_mean);
  return {mean, low, over_lane(sum_products(deviation, deviation, 1)), count};
}

// The parts [rows, lanes] of each row merged: [rows].
inline Moments<Tile> row_moments(const Moments<Tile>& lanes) {
  if (lanes.low.empty()) {
    auto [mean, m2, count] =
        reduce({lanes.mean, lanes.m2, lanes.count}, 1,
               [](Scalar mean_a, Scalar m2_a, Scalar count_a, Scalar mean_b, Scalar m2_b, Scalar count_b) {
                 const auto both = merged<Scalar>({mean_a, Scalar(), m2_a, count_a}, {mean_b, Scalar(), m2_b, count_b});
                 return carry(both.mean, both.m2, both.count);
               });
    return {mean, Tile(), m2, count};
  }
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
