// Tile shapes and warp counts: launch rules that the families share.
//
// Best shapes on Hopper:
//   - row kernels: 2 to 4 vectors of 16 bytes per thread and array, in CTAs of 128 to 512 threads
//   - elementwise kernels: 256 vectors per CTA, one per thread; four per thread if
//     arithmetic takes most of the time, to share the work done once per thread
//   - short rows: several per CTA
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl/tile_shape.h"

namespace ligerdsl::kernels {

struct TileShape {
  int64_t rows = 1;
  int64_t cols = 1;
  int num_warps = 4;
};

// Returns a tile of whole rows, for kernels that reduce over a row of n <= kResidentWidth elements.
inline TileShape row_tile(const Machine& machine, DType type, int64_t n, int64_t vectors = 4) {
  TileShape tile;
  tile.cols = tile_width(n);
  const int64_t enough = machine.is_gpu() ? 128 * vector_width(type) * 2 : 1024;
  while (tile.rows * 2 * tile.cols <= enough) tile.rows *= 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, type, vectors);
  return tile;
}

// Elements of the widest row that is read once and held: 32 per thread of the largest CTA, or 128
// KB of a CPU's cache.
inline constexpr int64_t kResidentWidth = 32768;
// Columns per block of the loop over a wider row.
inline constexpr int64_t kRowBlock = 8192;

// Work of an elementwise kernel per row.
struct ElementwiseWork {
  int arrays = 3;   // arrays that it reads or writes; 3 means three or more
  int vectors = 1;  // 16-byte vectors per thread and array on a GPU
};

// Returns a tile of an elementwise kernel over rows of n elements. Wide rows are split into blocks
// that divide them, if possible, so that no mask is needed.
inline TileShape elementwise_tile(const Machine& machine, DType type, int64_t n,
                                  ElementwiseWork work = {}) {
  const int64_t most = machine.is_gpu() ? 256 * vector_width(type) : 4096;
  TileShape tile;
  tile.cols = n < most ? tile_width(n) : n % most != 0 && n % (most / 2) == 0 ? most / 2 : most;
  // On a GPU, tiles of 1024 16-bit elements move 2 KB per array. If a kernel has only two arrays,
  // the starts of CTAs would then limit the speed, so its tiles are larger. On a CPU, the rows of a
  // tile share the work that is done once per tile.
  const int64_t enough = machine.is_gpu() && work.arrays >= 3 ? 1024 : most;
  while (tile.rows * 2 * tile.cols <= enough) tile.rows *= 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, type, work.vectors, 8);
  return tile;
}

// Returns a launch with one program per tile.
inline Launch elementwise_launch(const TileShape& tile, int64_t cols) {
  return library_launch(ceil_div(Size::rows(), tile.rows) * ceil_div(cols, tile.cols),
                        tile.num_warps);
}

}  // namespace ligerdsl::kernels
