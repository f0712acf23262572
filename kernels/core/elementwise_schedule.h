// Schedules of elementwise kernels.
#pragma once

#include <string>

#include "kernels/core/config.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

struct ElementwiseConfig {
  int rows = 1;  // rows per tile
  int num_warps = 4;
  int vectors =
      1;  // 16-byte vectors per thread if tiles are blocks of columns; 0: tiles have whole rows

  int64_t columns(DType type, int64_t cols) const {
    return vectors == 0 ? tile_width(cols)
                        : program::kWarpThreads * num_warps * vector_width(type) * vectors / rows;
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

// Returns the default schedule. Wide rows are split into blocks that divide them, if possible
// (tile_shape.h).
ElementwiseConfig elementwise_config(const Machine& machine, DType type, int64_t cols,
                                     ElementwiseWork work = {});
// Returns the reason why rows of `cols` elements cannot have this schedule; empty if they can.
std::string refused(DType type, int64_t cols, const ElementwiseConfig& config);

// Schedules of kernels whose programs each own one tile of rows, or one block of a flat array.
namespace elementwise_rule {

// A flat array is scheduled as rows of this many columns.
inline constexpr int64_t kFlat = kResidentWidth;

// Returns the vectors per thread for kernels whose arithmetic takes as long as their memory
// accesses. With 16-bit types on a GPU, four vectors per thread are faster than one. An f32 vector
// has half the elements, so its arithmetic does not limit the speed.
int work_vectors(const Machine& machine, DType type);

// Returns the reason why blocks of a flat array cannot have this schedule; empty if they can.
std::string refused_flat(DType type, const ElementwiseConfig& config);

template <class Options>
std::string valid(const Machine&, const Options& o, const ElementwiseConfig& config) {
  return refused(o.type, o.cols, config);
}

// `arrays`: number of arrays that the kernel reads or writes.
template <int arrays, class Options>
ElementwiseConfig heuristic(const Machine& machine, const Options& o) {
  return elementwise_config(machine, o.type, o.cols, {.arrays = arrays});
}

template <int arrays, class Options>
Cost cost(const Options& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

// Returns an operation of one step, with one tile per program. Sets `rows` and `block` of `meta`.
template <class Meta>
Operation by_tile(const std::string& name, void (*program)(KernelBuilder&, const Meta&), Meta meta,
                  const TileShape& tile) {
  meta.rows = tile.rows;
  meta.block = tile.cols;
  return {
      .steps = {record_step(name, meta.type, program, meta, elementwise_launch(tile, meta.cols))}};
}

template <class Meta>
Operation by_tiles(const std::string& name, void (*program)(KernelBuilder&, const Meta&),
                   const Meta& meta, const ElementwiseConfig& config) {
  return by_tile(name, program, meta, config.tile(meta.type, meta.cols));
}

}  // namespace elementwise_rule

}  // namespace ligerdsl::kernels
