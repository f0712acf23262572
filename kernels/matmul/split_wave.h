// The last wave of tiles of a persistent matmul, split along K.
//
// Example: c [4096, 4097] has 544 tiles of 128 x 256. Each of 132 SMs computes four, and 16 remain.
// While 16 SMs compute them, 116 would idle. Instead, the k-steps of these tiles, one tile after
// another, are divided into one range per program. A range has at least kLeastShare k-steps and
// covers parts of at most two tiles. Each part goes to `partials`, and matmul_finish_wave adds a
// tile's parts in order. Parts and order depend only on sizes and on the number of programs.
#pragma once

#include <limits>

#include "kernels/matmul/matmul_tiles.h"

namespace ligerdsl::kernels {

class SplitWave {
 public:
  static constexpr int kLeastShare = 8;  // k-steps of a program

  // A wave is split only up to this K. Its k-steps then fit in i32. ptxas implements a 64-bit
  // division as a call, and it serialises wgmma in kernels with calls.
  static constexpr int64_t largest_depth(int64_t programs, int64_t tile_k) {
    return std::numeric_limits<int32_t>::max() / (2 * programs) * tile_k;
  }

  // count: number of tiles of c. The first of them are computed whole, the others are split.
  SplitWave(const MatmulMeta& m, const Scalar& count, const Scalar& k_steps) {
    const Scalar left = count % m.programs,
                 fits = k_steps <= largest_depth(m.programs, m.tile_k) / m.tile_k;
    tiles_ = where(fits, where(left <= m.most_split, left, 0), 0);
    whole_ = count - tiles_;
    k_steps_ = max(k_steps.to(i32), 1);
    share_ = max(cdiv(tiles_ * k_steps_, m.programs), min(k_steps_, kLeastShare));
  }

  const Scalar& tiles() const { return tiles_; }  // number of split tiles
  const Scalar& whole() const { return whole_; }  // number of other tiles

  // Part of a split tile that a program computes: `steps` k-steps from `first` on.
  struct Part {
    Scalar tile;  // index among the split tiles
    Scalar first, steps;
  };
  // Returns the part with index 0 or 1 of a program's range. The part is empty if the range ends
  // earlier.
  Part part(const Scalar& program, const Scalar& index) const {
    const Scalar begin = program * share_, tile = begin / k_steps_ + index;
    const Scalar offset = begin - tile * k_steps_, first = max(offset, 0);
    const Scalar end = where(tile < tiles_, min(offset + share_, k_steps_), 0);
    return {tile, first, max(end - first, 0)};
  }
  // Returns the part's position in partials.
  static Scalar slot(const Scalar& program, const Scalar& tile) { return program + tile; }

  // Programs that compute parts of a split tile: [first, end).
  Scalar first_program(const Scalar& tile) const { return tile * k_steps_ / share_; }
  Scalar end_program(const Scalar& tile) const { return cdiv((tile + 1) * k_steps_, share_); }

 private:
  Scalar k_steps_, tiles_, whole_, share_;
};

}  // namespace ligerdsl::kernels
