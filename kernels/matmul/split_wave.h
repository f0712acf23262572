// The last wave of tiles of a persistent matmul, split along K.
//
// Example: c [4096, 4224] has 544 tiles of 128 x 256. Each of 132 SMs computes four, and 16 tiles
// remain. While 16 SMs computed them, 116 SMs would idle. Instead, each of these tiles is divided
// along K into 8 parts, which 128 SMs compute. A program computes at most one part. Parts are
// stored in `partials`, and matmul_finish_wave adds a tile's parts in order. Programs with the same
// part of different tiles read the same range of K at the same time, and share operands in L2.
// Parts and order depend only on sizes and on the number of programs.
#pragma once

#include <limits>

#include "kernels/matmul/matmul_tiles.h"

namespace ligerdsl::kernels {

class SplitWave {
 public:
  static constexpr int kLeastSteps = 4;  // least k-steps per part, except the last part
  // Largest K for which a wave is split: k-steps then fit in i32. ptxas implements a 64-bit
  // division as a call, and it serialises wgmma in kernels with calls.
  static constexpr int64_t largest_depth(int64_t tile_k) {
    return std::numeric_limits<int32_t>::max() / 2 * tile_k;
  }

  // count: number of tiles of c. The first whole() tiles are computed whole, the others are split.
  SplitWave(const MatmulMeta& m, const Scalar& count, const Scalar& k_steps) {
    const Scalar left = count % m.programs, parts = m.programs / max(left, 1),
                 fits = k_steps <= largest_depth(m.tile_k) / m.tile_k;
    k_steps_ = k_steps.to(i32);
    steps_ = max(cdiv(k_steps_, parts), kLeastSteps);
    const Scalar split = where(left <= m.most_split, left, 0);
    tiles_ = where(fits, where(k_steps_ >= m.least_k_steps, split, 0), 0);
    whole_ = count - tiles_;
  }

  const Scalar& tiles() const { return tiles_; }  // number of split tiles
  const Scalar& whole() const { return whole_; }  // number of tiles that are not split
  // Number of a split tile's parts. The last part may have fewer k-steps.
  Scalar parts() const { return cdiv(k_steps_, steps_); }

  struct Part {
    Scalar tile;  // index among the split tiles
    Scalar first, steps;
  };
  // Returns a program's part, with no k-steps if the program has none.
  Part part(const Scalar& program) const {
    const Scalar divisor = max(tiles_, 1), first = program / divisor * steps_,
                 steps = max(min(k_steps_ - first, steps_), 0);
    return {program % divisor, first, where(tiles_ > 0, steps, 0)};
  }
  // Returns a part's position in `partials`, which is the program that computes it.
  Scalar slot(const Scalar& tile, const Scalar& part) const { return part * tiles_ + tile; }

 private:
  Scalar k_steps_, steps_, tiles_, whole_;
};

}  // namespace ligerdsl::kernels
