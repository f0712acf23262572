// Host functions that choose tile widths and warps, for launch rules and meta-parameters.
#ifndef LIGERDSL_DSL_TILE_SHAPE_H_
#define LIGERDSL_DSL_TILE_SHAPE_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ligerdsl/dsl/kernel.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl {

// Returns a tile dimension >= n. Up to 512 it is a power of two. Above, it is the smallest c * 2^k
// with c in {1, 3, 5, 7} and 2^k >= 256.
inline int64_t tile_width(int64_t n) {
  int64_t best =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  if (best <= 512) return best;
  for (int64_t odd : {3, 5, 7}) {
    const int64_t power =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n, odd))));
    if (power >= 256 && odd * power < best) best = odd * power;
  }
  return best;
}

inline int64_t floor_power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// Returns the number of elements of one 16-byte vector.
inline int64_t vector_width(DType type) {
  return 16 / size_of(type);
}

// Returns the number of warps for a tile of `elements` = c * 2^n, c odd, with about `vectors`
// 16-byte vectors per thread. The threads divide 2^n elements evenly, and each thread has c of
// these parts. A part has at least one vector.
inline int warps_for(int64_t elements, DType type, int64_t vectors, int most = 32) {
  const int64_t whole = std::max<int64_t>(1, (elements & -elements) / vector_width(type));
  const int64_t threads =
      std::min(whole, floor_power_of_two(elements / (vector_width(type) * vectors)));
  return static_cast<int>(std::clamp<int64_t>(threads / 32, 1, most));
}

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_TILE_SHAPE_H_
