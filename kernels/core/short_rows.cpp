#include "kernels/core/short_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/aligned_rows.h"
#include "kernels/core/tile_shape.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

constexpr double kBytesPerSlot = 4.5;
constexpr int64_t kMostOddTile = 31;  // largest odd c of a tile with c 2^n columns
constexpr int64_t kFewestLanes = 4;   // four lanes read 64 bytes: two sectors of 32 bytes
// Most elements per thread if a thread has parts of several rows. Cross-entropy of 262144 x 256 in
// bf16 takes 96 us with 16, and 128 us with 32 (H200).
constexpr int64_t kHeldByThread = 16;

double predicted_slots(const ShortRowWork& work, const ShortRowTile& tile) {
  const double threads = program::kWarpThreads, memory = work.bytes / kBytesPerSlot,
               instructions = static_cast<double>(tile.columns) / threads * work.per_element +
                              work.per_row * static_cast<double>(tile.lanes) / threads;
  return std::cbrt(memory * memory * memory + instructions * instructions * instructions);
}

}  // namespace

std::optional<ShortRowTile> short_row_tile(DType type, int64_t cols, const ShortRowWork& work) {
  const int64_t vector = vector_width(type),
                need = cols % vector == 0 ? cols : columns_with_offset(type, cols);
  std::optional<ShortRowTile> best;
  double least = 0;
  for (int64_t power = vector; power < 2 * need || power == vector; power *= 2) {
    const int64_t columns = ceil_div(need, power) * power;
    if ((columns & -columns) != power || columns / power > kMostOddTile) continue;
    const ShortRowTile tile{columns, std::min<int64_t>(power / vector, program::kWarpThreads)};
    const bool narrow = tile.lanes < kFewestLanes && columns > power;
    if (narrow || tile.elements() > work.most_elements) continue;
    const double time = predicted_slots(work, tile);
    if (best && time >= least && (time > least || tile.elements() >= best->elements())) continue;
    best = tile, least = time;
  }
  return best;
}

int64_t rows_of_tile(const ShortRowTile& tile, int num_warps) {
  return num_warps * program::kWarpThreads / tile.lanes *
         floor_power_of_two(std::max<int64_t>(1, kHeldByThread / tile.elements()));
}

int64_t row_step(const Machine& machine, DType type, int64_t cols, const ShortRowTile& tile) {
  const bool room = tile.columns >= columns_with_offset(type, cols);
  return machine.is_gpu() && room ? vector_width(type) : 1;
}

Size programs_of_tiles(int64_t rows, int64_t step) {
  return ceil_div(Size::rows(), rows * step) * step;
}

TileRows::TileRows(KernelBuilder& k, int64_t rows, int64_t step)
    : k_(k), rows_(rows), step_(step), block_(k.program_id(0)) {
  if (step == 1) return;
  residue_ = block_ % step;
  block_ = block_ / step;
}

Tile TileRows::indices() const {
  const Tile among = k_.arange(rows_).to(i64) + block_.to(i64) * rows_;
  return step_ == 1 ? among : among * step_ + residue_.to(i64);
}

}  // namespace ligerdsl::kernels
