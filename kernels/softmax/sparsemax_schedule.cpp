#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/core/record.h"
#include "kernels/softmax/sparsemax.h"

namespace ligerdsl::kernels {
namespace {

// Returns the columns of a tile. In a cluster it is a power of two, so that CTAs can divide it.
int64_t tile_of(const SparsemaxOptions& o, const RowConfig& config) {
  const auto cols = static_cast<uint64_t>(o.cols);
  return config.num_ctas > 1 ? static_cast<int64_t>(std::bit_ceil(cols))
                             : config.columns(o.type, o.cols);
}

constexpr int64_t kExactFrom = 48;  // elements per thread from which divisions are exact
constexpr int kMostWarps = 16;  // most warps per CTA; more would leave too few registers per thread
constexpr int kWarpsPerSm =
    32;  // least warps per SM: 64 registers per thread, 64 KB of 16-bit rows in flight

// Returns true if rows end inside a vector. Such rows need masks, which take registers.
bool masked(const SparsemaxOptions& o) {
  return o.cols % vector_width(o.type) != 0;
}

// How a GPU holds rows in registers, by their length.
struct Held {
  // Short rows: a warp holds one or more of them.
  int side_by_side;  // warps per CTA
  int64_t of_rows;   // elements per thread
  bool one_each;     // a CTA has several rows even if a warp has only one
  // Longer rows: a CTA holds one.
  int64_t elements;  // elements per thread
  int64_t most;      // elements per thread with which kMostWarps hold a wide row; 0: no such CTA
  // Wide rows, with more than `wide` columns: a cluster holds one.
  int64_t wide;
  int wide_warps;         // warps per CTA
  int64_t wide_elements;  // elements per thread
  int wide_ctas_per_sm;   // 0: no minimum
};

// Fastest schedules in bf16:
//   65536x128, H100     eight rows in one warp, not sixteen in four warps
//   32768x512, H200     two rows in one warp; two warps of one row have half the bytes in flight
//   8192x32768, H200    128 KB of rows per SM, although 64 registers spill 92 bytes; not clusters
//   2048x131072, H200   128 KB of rows per SM, although 176 bytes spill; not 96 KB or clusters
// Rows of f32 have the same number of bytes with half the elements.
Held held_forward(const SparsemaxOptions& o) {
  constexpr int64_t kVectors = 16, kShort = 256, kTiny = 64;
  const bool narrow = size_of(o.type) < size_of(f32);
  // `few`: a thread has 16 elements, because 32 would need too many registers.
  const bool few = narrow && tile_width(o.cols) <= kShort && (masked(o) || o.cols < kTiny);
  return {.side_by_side = few ? 4 : 1,
          .of_rows = narrow && !few ? 32 : 16,
          .one_each = !narrow,
          .elements = 32,
          .most = narrow ? 64 : 0,
          .wide = kMostWarps * program::kWarpThreads * 32,
          .wide_warps = 4,
          .wide_elements = kVectors * vector_width(o.type),
          .wide_ctas_per_sm = narrow ? 4 : 3};
}

// In bf16, CTAs of one warp are slower for 65536x128, and CTAs of 16 warps are slower for
// 8192x32768 and 2048x131072.
Held held_backward(const SparsemaxOptions&) {
  return {.side_by_side = 4,
          .of_rows = 16,
          .one_each = true,
          .elements = 16,
          .most = 0,
          .wide = 16384,
          .wide_warps = 8,
          .wide_elements = 32,
          .wide_ctas_per_sm = 3};
}

// Returns the schedule in which a warp holds one or more rows.
RowConfig side_by_side(const Held& held, int64_t rows_of_warp) {
  // With one warp per CTA, all lanes must have the same number of vectors.
  if (held.side_by_side == 1) rows_of_warp = floor_power_of_two(rows_of_warp);
  const int warps = rows_of_warp > 1 ? held.side_by_side : std::max(held.side_by_side, 2);
  return {.rows = static_cast<int>(rows_of_warp) * warps,
          .num_warps = warps,
          .min_ctas_per_sm = warps > 1 ? kWarpsPerSm / warps : 0};
}

// Returns a schedule that holds rows in registers, or none if even a cluster cannot. A row within
// one warp needs no barrier, and CTAs of one warp wait for no other row. Rows that no CTA can hold
// are held by a cluster.
std::optional<RowConfig> in_registers(const Machine& machine, const SparsemaxOptions& o,
                                      const Held& held) {
  const int64_t rows_of_warp = program::kWarpThreads * held.of_rows / tile_width(o.cols);
  if (rows_of_warp > 1 || (rows_of_warp == 1 && held.one_each))
    return side_by_side(held, rows_of_warp);
  const bool wide = o.cols > held.wide;
  if (wide && !masked(o) && o.cols <= kMostWarps * program::kWarpThreads * held.most)
    return RowConfig{.num_warps = kMostWarps, .min_ctas_per_sm = kWarpsPerSm / kMostWarps};
  const int64_t warp = program::kWarpThreads * (wide ? held.wide_elements : held.elements);
  const int most_warps = wide ? held.wide_warps : kMostWarps;
  RowConfig config{.num_warps = 1};
  while (config.num_warps < most_warps && warp * config.num_warps < o.cols) config.num_warps *= 2;
  const int64_t part = warp * config.num_warps;
  while (part * config.num_ctas < o.cols) config.num_ctas *= 2;
  if (config.num_ctas > machine.max_cluster) return {};
  if (config.num_warps >= 4 && !masked(o))
    config.min_ctas_per_sm = wide ? held.wide_ctas_per_sm : kWarpsPerSm / config.num_warps;
  return config;
}

template <Held (*held)(const SparsemaxOptions&)>
RowConfig heuristic(const Machine& machine, const SparsemaxOptions& o) {
  if (machine.is_gpu()) {
    if (const auto config = in_registers(machine, o, held(o))) return *config;
  } else if (o.cols <= kResidentWidth / 2) {
    return whole_rows(machine, o.type, o.cols, 4);
  }
  return rows_in_blocks(o.type, kRowBlock, 4);
}

std::string valid(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  if (config.keep == Keep::cluster)
    return "sparsemax does not support keep=cluster; use keep=registers, with num_ctas above 1 for "
           "a cluster";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  if (!config.whole() || config.num_ctas == 1) return refused(machine, o.type, o.cols, config);
  if (machine.max_cluster < config.num_ctas)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) + " on " +
           std::string(machine.name) + ", got " + std::to_string(config.num_ctas) +
           "; use a smaller num_ctas";
  if (config.rows != 1)
    return "rows: expected 1 with num_ctas=" + std::to_string(config.num_ctas) + ", got " +
           std::to_string(config.rows) + "; use rows=1, or num_ctas=1";
  RowConfig one = config;  // one CTA with the threads of the cluster
  one.num_warps *= config.num_ctas;
  one.num_ctas = 1;
  return refused(machine, o.type, tile_of(o, config), one);
}

// Returns the number of pieces for which each thread has one vector per piece.
int64_t pieces_of(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  if (!machine.is_gpu() || o.cols % vector_width(o.type) != 0) return 1;
  const int64_t columns = config.columns(o.type, o.cols);
  int64_t pieces = 1;
  while (pieces * 2 <= config.held(o.type, o.cols) &&
         columns % (pieces * 2 * vector_width(o.type)) == 0)
    pieces *= 2;
  return pieces;
}

Operation operation(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config,
                    const char* name, void (*program)(KernelBuilder&, const SparsemaxMeta&)) {
  SparsemaxMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = tile_of(o, config);
  if (config.rows > 1) meta.pieces = pieces_of(machine, o, config);
  if (config.rows == 1)
    meta.lanes = block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas,
                             o.cols % vector_width(o.type) == 0);
  // With this many elements per thread, approximate divisions cause spills and are much slower than
  // exact ones.
  const int64_t threads = int64_t{program::kWarpThreads} * config.num_warps;
  meta.exact_division = machine.is_gpu() && config.rows == 1 && config.num_ctas == 1 &&
                        !meta.looped && meta.block >= kExactFrom * threads;
  return operation_of(record_step(name, o.type, program, meta, config.launch()));
}

Operation forward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_forward_kernel.name, &sparsemax_forward);
}

Operation backward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_backward_kernel.name, &sparsemax_backward);
}

// `arrays`: number of arrays of rows that the kernel reads or writes.
template <int arrays>
Cost cost(const SparsemaxOptions& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const SparsemaxKernel sparsemax_forward_kernel{
    "sparsemax_forward", "sparsemax of rows", &valid, &heuristic<held_forward>, &forward, &cost<2>};
const SparsemaxKernel sparsemax_backward_kernel{"sparsemax_backward",
                                                "gradient of sparsemax",
                                                &valid,
                                                &heuristic<held_backward>,
                                                &backward,
                                                &cost<3>};

Operation sparsemax_forward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_forward_kernel(machine, options);
}

Operation sparsemax_backward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
