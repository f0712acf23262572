// Tile shapes and warp counts: the launch rules that the families share.
//
// Measured on Hopper: row kernels want 2-4 vectors of 16 bytes per thread and stream, in CTAs of 128-512 threads;
// elementwise kernels 256 vectors per CTA, one per thread, or four where they compute so much that what each thread does
// once counts; several rows per CTA when rows are short.
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

// A tile of whole rows, for kernels that reduce over a row of n <= kResidentWidth elements.
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

// What an elementwise kernel does to a row.
struct ElementwiseWork {
  int arrays = 3;   // of the row's size, that it reads or writes; three: or more
  int vectors = 1;  // of 16 bytes that a thread has of each on a GPU
};

// A tile of an elementwise kernel over rows of n elements. Wide rows are cut into blocks that divide them where that is
// possible, so that no mask remains.
inline TileShape elementwise_tile(const Machine& machine, DType type, int64_t n, ElementwiseWork work = {}) {
  const int64_t most = machine.is_gpu() ? 256 * vector_width(type) : 4096;
  TileShape tile;
  tile.cols = n < most ? tile_width(n) : n % most != 0 && n % (most / 2) == 0 ? most / 2 : most;
  // CTAs of 2 KB of two arrays start more slowly than their bytes arrive: SiLU of 8192x3072 in bf16 takes 33 us with
  // them on an H200, 28 with 4 KB. Those of three arrays lose nothing (its gradient 40.2 and 40.3).
  // A program of a CPU computes once for several rows what all of them need.
  const int64_t enough = machine.is_gpu() && work.arrays >= 3 ? 1024 : most;
  while (tile.rows * 2 * tile.cols <= enough) tile.rows *= 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, type, work.vectors, 8);
  return tile;
}

// A program for every tile of the rows.
inline Launch elementwise_launch(const TileShape& tile, int64_t cols) {
  return library_launch(ceil_div(Size::rows(), tile.rows) * ceil_div(cols, tile.cols), tile.num_warps);
}

}  // namespace ligerdsl::kernels
