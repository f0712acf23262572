// Tile shapes and warp counts: the launch rules that the families share.
//
// Measured on Hopper: row kernels want 2-4 vectors of 16 bytes per thread and stream, elementwise kernels exactly one;
// CTAs of 128-512 threads; several rows per CTA when rows are short.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/launch.h"

namespace ligerdsl::kernels {

// The narrowest tile dimension c * 2^n >= n with c in {1, 3, 5, 7}; a power of two up to 512.
inline int64_t tile_width(int64_t n) {
  int64_t best = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  if (best <= 512) return best;
  for (int64_t odd : {3, 5, 7}) {
    const int64_t power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n, odd))));
    if (power >= 256 && odd * power < best) best = odd * power;
  }
  return best;
}

inline int64_t floor_power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// Elements of one 16-byte vector.
inline int64_t vector_width(DType type) {
  return 16 / size_of(type);
}

struct TileShape {
  int64_t rows = 1;
  int64_t cols = 1;
  int num_warps = 4;
};

// Warps for a tile of `elements` = c * 2^n with about `vectors` 16-byte vectors per thread, and never less than one: c
// counts registers, so more threads than 2^n elements have vectors for would halve the vectors.
inline int warps_for(int64_t elements, DType type, int64_t vectors, int most = 32) {
  const int64_t whole = std::max<int64_t>(1, (elements & -elements) / vector_width(type));
  const int64_t threads = std::min(whole, floor_power_of_two(elements / (vector_width(type) * vectors)));
  return static_cast<int>(std::clamp<int64_t>(threads / 32, 1, most));
}

// A tile of whole rows, for kernels that reduce over a row of n <= resident_width() elements.
inline TileShape row_tile(const Machine& machine, DType type, int64_t n, int64_t vectors = 4) {
  TileShape tile;
  tile.cols = tile_width(n);
  const int64_t enough = machine.is_gpu() ? 128 * vector_width(type) * 2 : 1024;
  while (tile.rows * 2 * tile.cols <= enough) tile.rows *= 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, type, vectors);
  return tile;
}

// Widest row that is read once and kept: 32 elements per thread of the largest CTA, 128 KB of a CPU's cache.
inline constexpr int64_t kResidentWidth = 32768;
// Block of the loop over a wider row.
inline constexpr int64_t kRowBlock = 8192;

// A tile of an elementwise kernel over rows of n elements: one vector per thread on a GPU. Wide rows are cut into
// blocks that divide them where that is possible, so that no mask remains.
inline TileShape elementwise_tile(const Machine& machine, DType type, int64_t n) {
  const int64_t most = machine.is_gpu() ? 256 * vector_width(type) : 4096;
  TileShape tile;
  tile.cols = n < most ? tile_width(n) : n % most != 0 && n % (most / 2) == 0 ? most / 2 : most;
  while (tile.rows * 2 * tile.cols <= std::min<int64_t>(most, 1024)) tile.rows *= 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, type, 1, 8);
  return tile;
}

// A program for every tile of the rows.
inline Launch elementwise_launch(const TileShape& tile, int64_t cols) {
  return library_launch(ceil_div(Size::rows(), tile.rows) * ceil_div(cols, tile.cols), tile.num_warps);
}

}  // namespace ligerdsl::kernels
