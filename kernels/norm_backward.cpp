#include "kernels/norm_backward.h"

namespace ligerdsl::kernels {
namespace {

// Of a thread that works on a row beside partial sums.
constexpr int kRegisters = 128;

// The largest CTA whose threads can have them.
int64_t threads_of(const Machine& machine) {
  return machine.arch->threads_with(kRegisters);
}

// Vectors of a row that one thread can work on beside its partial sums: these take 8 registers per vector of 2-byte
// elements and 4 of 4-byte ones, of 128; the rows themselves wait in shared memory.
int64_t most_vectors(const NormBackwardShape& shape) {
  if (size_of(shape.type) == 4) return 4;
  return shape.sums <= 1 && shape.inputs == 2 ? 5 : 4;
}

// Tile widths here have an odd factor of 1, 3 or 5: 7 vectors a thread would be too many. Five are for rows that fill a
// CTA and one sum.
int64_t backward_width(const Machine& machine, const NormBackwardShape& shape) {
  const int64_t narrow = tile_width(shape.cols);
  const int64_t power = narrow & -narrow, odd = narrow / power;
  if (odd == 7) return 8 * power;
  const bool five = most_vectors(shape) == 5 && power == threads_of(machine) * vector_width(shape.type);
  return odd == 5 && !five ? 6 * power : narrow;
}

// How the CTAs of a cluster share a row; num_ctas is 1 where they do not: of rows that one CTA could keep, one does.
// Measured on Hopper: the fewest CTAs of which a thread has at most four vectors, one CTA on an SM, one row block
// on its way (two cost 2 to 10 %). Without a loop over rows (no sums) a cluster would not run long enough to pay for
// its start.
NormBackwardTile shared_tile(const Machine& machine, const NormBackwardShape& shape) {
  constexpr int kMostVectors = 4;
  if (machine.max_cluster == 1) return {};
  const int64_t step = threads_of(machine) * vector_width(shape.type);  // columns that a CTA reads at once
  NormBackwardTile tile;
  if (shape.sums == 0 || backward_width(machine, shape) <= step * most_vectors(shape)) return tile;
  int ctas = 2;
  while (ctas <= machine.max_cluster && shape.cols > ctas * step * kMostVectors) ctas *= 2;
  if (ctas > machine.max_cluster) return tile;
  tile.num_ctas = ctas;
  tile.stages = 2;
  tile.num_warps = static_cast<int>(threads_of(machine) / program::kWarpThreads);
  const int64_t vectors = ceil_div(shape.cols, ctas * step);
  tile.cols = vectors * ctas * step;
  tile.reload_weight = vectors * vector_width(shape.type) * shape.sums > 16;
  return tile;
}

}  // namespace

bool norm_backward_fits(const Machine& machine, const NormBackwardShape& shape) {
  if (!machine.is_gpu()) return shape.cols <= 16384;  // sums of 64 KB stay in a core's caches
  if (shared_tile(machine, shape).num_ctas > 1) return true;
  return backward_width(machine, shape) <= threads_of(machine) * vector_width(shape.type) * most_vectors(shape);
}

// A thread holds 16 elements of 2 bytes or 8 of 4 where rows are short enough to be put side by side, and all there are
// of a wider row. A row of 8192 elements of 2 bytes runs best with 1024 threads of one vector each.
NormBackwardTile norm_backward_tile(const Machine& machine, const NormBackwardShape& shape) {
  NormBackwardTile tile{row_tile(machine, shape.type, shape.cols)};
  if (!machine.is_gpu()) return tile;
  if (const NormBackwardTile shared = shared_tile(machine, shape); shared.num_ctas > 1) return shared;
  const int64_t vector = vector_width(shape.type), bytes = size_of(shape.type), threads = threads_of(machine);
  tile.cols = backward_width(machine, shape);
  tile.rows = 1;
  const int64_t whole = std::max<int64_t>(1, (tile.cols & -tile.cols) / vector);  // threads that share a row
  // Two sums need registers that come free at a barrier, which a row within a warp has not.
  const bool crowded = shape.sums == 2 && whole <= 32;
  const auto roomy = [&](int64_t rows) {
    return rows * tile.cols <= threads * 32 / bytes ||
           (!crowded && rows * whole <= threads && rows * tile.cols <= threads * vector * most_vectors(shape));
  };
  while (roomy(tile.rows * 2)) tile.rows *= 2;
  const bool single = tile.cols == 8192 && bytes == 2 && shape.sums <= 1 && shape.inputs == 2;
  tile.num_warps = warps_for(tile.rows * tile.cols, shape.type, single ? 1 : 2, single ? 32 : 16);
  const int64_t held = tile.rows * tile.cols / (32 * tile.num_warps);  // elements of a thread
  tile.reload_weight = held * shape.sums > 16;
  return tile;
}

PartialCount norm_partials(const Machine& machine, int64_t tile_rows, int per_sm, int num_ctas) {
  const bool gpu = machine.is_gpu();
  // Measured on an H200: one SM in eleven is no part of a complete group of four or more.
  const int64_t grouped = num_ctas > 2 ? machine.sms * 10 / 11 : machine.sms;
  const int64_t most = gpu ? std::max<int64_t>(grouped / num_ctas, 1) * per_sm : 64;
  const int64_t tiles_each = gpu ? 1 : 4;  // at least
  const Size tiles = ceil_div(Size::rows(), tile_rows * tiles_each);
  // No more than it takes for the longest to have as few tiles: what each writes is added up afterwards.
  return {.of_rows = ceil_div(tiles, max(ceil_div(tiles, most), 1)), .most = min(tiles, most)};
}

}  // namespace ligerdsl::kernels
