// The schedules of kernels that work element by element.
#pragma once

#include <string>

#include "kernels/core/config.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

struct ElementwiseConfig {
  int rows = 1;  // of a tile
  int num_warps = 4;
  int vectors = 1;  // of 16 bytes that a thread has of a tile of blocks; 0: tiles are of whole rows

  int64_t columns(DType type, int64_t cols) const {
    return vectors == 0 ? tile_width(cols) : program::kWarpThreads * num_warps * vector_width(type) * vectors / rows;
  }
  TileShape tile(DType type, int64_t cols) const {
    return {.rows = rows, .cols = columns(type, cols), .num_warps = num_warps};
  }

  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 4096), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::same);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::same);
  }
};

// In blocks that divide wide rows where that is possible (tile_shape.h).
ElementwiseConfig elementwise_config(const Machine& machine, DType type, int64_t cols, ElementwiseWork work = {});
// Why rows of so many elements cannot be taken so; empty: they can.
std::string refused(DType type, int64_t cols, const ElementwiseConfig& config);

// Schedules of kernels whose programs each own one tile of rows, or one block of a flat array.
namespace elementwise_rule {

// Columns of the rows by which a flat array is scheduled.
inline constexpr int64_t kFlat = kResidentWidth;

// Returns the vectors per thread of kernels that compute for as long as they read and write. On an H200, 16384x14336 in bf16,
// GELU's erf form takes 220 us with four vectors and 254 with one, dropout 233 and 259. A vector of f32 is half the work.
int work_vectors(const Machine& machine, DType type);

// Returns the reason why blocks of a flat array cannot have this schedule; empty if they can.
std::string refused_flat(DType type, const ElementwiseConfig& config);

template <class Options>
std::string valid(const Machine&, const Options& o, const ElementwiseConfig& config) {
  return refused(o.type, o.cols, config);
}

// `arrays`: number of arrays of rows that the kernel reads or writes.
template <int arrays, class Options>
ElementwiseConfig heuristic(const Machine& machine, const Options& o) {
  return elementwise_config(machine, o.type, o.cols, {.arrays = arrays});
}

template <int arrays, class Options>
Cost cost(const Options& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

// Returns the operation of one step whose programs own one tile each. `meta` lacks the tile.
template <class Meta>
Operation by_tile(const std::string& name, void (*program)(KernelBuilder&, const Meta&), Meta meta,
                  const TileShape& tile) {
  meta.rows = tile.rows;
  meta.block = tile.cols;
  return {.steps = {record_step(name, meta.type, program, meta, elementwise_launch(tile, meta.cols))}};
}

template <class Meta>
Operation by_tiles(const std::string& name, void (*program)(KernelBuilder&, const Meta&), const Meta& meta,
                   const ElementwiseConfig& config) {
  return by_tile(name, program, meta, config.tile(meta.type, meta.cols));
}

}  // namespace elementwise_rule

}  // namespace ligerdsl::kernels
