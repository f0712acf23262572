#include "kernels/core/elementwise_schedule.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMostHeld = 16;  // most vectors per thread and array

}  // namespace

ElementwiseConfig elementwise_config(const Machine& machine, DType type, int64_t cols,
                                     ElementwiseWork work) {
  const TileShape tile = elementwise_tile(machine, type, cols, work);
  const bool whole = tile.cols == tile_width(cols);
  const int64_t held =
      tile.rows * tile.cols / (program::kWarpThreads * tile.num_warps * vector_width(type));
  return {.rows = static_cast<int>(tile.rows),
          .num_warps = tile.num_warps,
          .vectors = whole ? 0 : static_cast<int>(held)};
}

std::string refused(DType type, int64_t cols, const ElementwiseConfig& config) {
  const int64_t width = config.columns(type, cols),
                threads = program::kWarpThreads * config.num_warps;
  if (config.vectors > 0 && width < vector_width(type))
    return "columns per block: expected at least " + std::to_string(vector_width(type)) +
           " (one vector), got " + std::to_string(width) +
           "; use fewer rows, more vectors or warps, or vectors=0";
  if (config.vectors > 0 && width >= tile_width(cols))
    return "a block of " + std::to_string(width) +
           " columns holds whole rows; use fewer vectors or warps, or vectors=0";
  const int64_t vectors = config.rows * width / vector_width(type);
  if (config.num_warps > 1 && vectors < threads)
    return "vectors per tile: expected at least " + std::to_string(threads) + ", got " +
           std::to_string(vectors) + "; use fewer warps or more rows";
  if (vectors > kMostHeld * threads)
    return "vectors per thread and array: expected at most " + std::to_string(kMostHeld) +
           ", got " + std::to_string(vectors / threads) +
           "; use more warps, fewer rows, or blocks (vectors of 1 or more)";
  return "";
}

namespace elementwise_rule {

int work_vectors(const Machine& machine, DType type) {
  return machine.is_gpu() && size_of(type) == 2 ? 4 : 1;
}

std::string refused_flat(DType type, const ElementwiseConfig& config) {
  if (config.rows != 1)
    return "rows: expected 1 for a flat array, got " + std::to_string(config.rows) + "; use rows=1";
  if (config.vectors == 0) return "vectors: expected 1 or more for a flat array, got 0";
  return refused(type, kFlat, config);
}

}  // namespace elementwise_rule

}  // namespace ligerdsl::kernels
