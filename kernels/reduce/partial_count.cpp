#include "kernels/reduce/partial_count.h"

#include <algorithm>

#include "kernels/core/tile_shape.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

// One SM in 11 cannot run clusters of four CTAs or more (H200).
constexpr int64_t kUngroupedSms = 11;
constexpr int64_t kProgramsOnCpu = 64;
// Least rows per program on a CPU, so that loading them takes much longer than storing the partial
// sum.
constexpr int64_t kRowsOnCpu = 64;

}  // namespace

std::string refused_sum_in_shared_memory(const Machine& machine, int64_t elements) {
  if (!machine.is_gpu()) return "";
  // The exchange is in f32.
  const int64_t bytes = elements * size_of(f32),
                room = machine.shared_per_cta - machine.exchange_bytes;
  if (bytes <= room) return "";
  return "shared memory for the sum over a tile's rows: expected at most " + std::to_string(room) +
         " bytes, got " + std::to_string(bytes) + "; use fewer vectors or warps";
}

PartialCount partial_count(const Size& tiles, int64_t most) {
  // Use the fewest programs that need no more tiles per program than `most` programs would. Each
  // partial sum costs a store and a load.
  return {.of_rows = ceil_div(tiles, max(ceil_div(tiles, most), 1)),
          .most = min(tiles, most),
          .limit = most};
}

PartialCount norm_partials(const Machine& machine, int64_t tile_rows, int per_sm, int num_ctas,
                           int64_t period) {
  const bool gpu = machine.is_gpu();
  const int64_t grouped =
      num_ctas > 2 ? machine.sms - ceil_div(machine.sms, kUngroupedSms) : machine.sms;
  const int64_t most = gpu ? std::max<int64_t>(grouped / num_ctas, 1) * per_sm : kProgramsOnCpu;
  const int64_t tiles_each = gpu ? 1 : 4;  // minimum per partial sum
  const Size tiles = ceil_div(Size::rows(), tile_rows * tiles_each);
  if (period == 1) return partial_count(tiles, most);
  const int64_t whole = std::max(most / period, int64_t{1}) * period;
  const PartialCount count = partial_count(tiles, whole);
  return {.of_rows = ceil_div(count.of_rows, period) * period,
          .most = min(ceil_div(tiles, period) * period, whole),
          .limit = whole};
}

PartialCount column_partials(const Machine& machine, int64_t cols, int64_t tile_rows,
                             int64_t tile_cols, int per_sm) {
  const int64_t programs = machine.is_gpu() ? machine.sms * per_sm : kProgramsOnCpu;
  const int64_t rows_each =
      machine.is_gpu() ? tile_rows : round_up(kRowsOnCpu, tile_rows);  // minimum per program
  return partial_count(ceil_div(Size::rows(), rows_each),
                       std::max<int64_t>(programs / ceil_div(cols, tile_cols), 1));
}

}  // namespace ligerdsl::kernels
