#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/core/record.h"
#include "kernels/softmax/sparsemax.h"

namespace ligerdsl::kernels {
namespace {

// Elements of a tile of a row. Among the CTAs of a cluster it is dealt by powers of two.
int64_t tile_of(const SparsemaxOptions& o, const RowConfig& config) {
  const auto cols = static_cast<uint64_t>(o.cols);
  return config.num_ctas > 1 ? static_cast<int64_t>(std::bit_ceil(cols)) : config.columns(o.type, o.cols);
}

constexpr int64_t kExactFrom = 48;  // elements of a thread whose registers have no room for approximate divisions
constexpr int kMostWarps = 16;      // of a CTA; more of them leave too few registers to a thread
constexpr int kWarpsPerSm = 32;     // at least: 64 registers of a thread, 64 KB of 16-bit rows on their way

// Masks of rows that end inside a vector take registers of their own.
bool masked(const SparsemaxOptions& o) {
  return o.cols % vector_width(o.type) != 0;
}

// Of a GPU: a thread with about so many elements of each array.
struct Held {
  int side_by_side;  // warps of a CTA that has several rows
  int64_t of_rows;   // elements of a thread of these
  bool one_each;     // of rows of which a warp has one a CTA has several, too
  int64_t elements;
  int64_t most;  // where CTAs of kMostWarps hold wider rows whole; 0: a cluster has them
  int64_t wide;  // rows of more columns are a cluster's, of CTAs of so many warps that hold so many elements a thread
  int wide_warps;
  int64_t wide_elements;
  int wide_ctas_per_sm;  // 0: no floor
};

// Measured in bf16, us. On an H100, 65536x128: 16.7 with eight rows of one warp, 19.0 with sixteen of four. On an H200,
// 32768x512: 24.3 with two rows of one warp; a row of each of two warps 31.8, half of the bytes under way. 8192x32768: 339 with
// 128 KB of rows an SM, though 64 registers spill 92 bytes; clusters 382 and more. 2048x131072: 488 with 128 KB an SM, and 176 bytes spilled; 96 KB 550; clusters of
// 16 679. Rows of f32 have as many bytes in half of the elements.
Held held_forward(const SparsemaxOptions& o) {
  constexpr int64_t kVectors = 16, kShort = 256, kTiny = 64;
  const bool narrow = size_of(o.type) < size_of(f32);
  // Registers for twice the elements are not there.
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

// 65536x128 17.4 us, 23.0 in CTAs of a warp; 8192x32768 394 us, 412 in CTAs of 16 warps; 2048x131072 405, 583.
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

// A CTA's rows, where a warp has some.
RowConfig side_by_side(const Held& held, int64_t rows_of_warp) {
  // Each lane of a warp by itself has as many vectors as the others.
  if (held.side_by_side == 1) rows_of_warp = floor_power_of_two(rows_of_warp);
  const int warps = rows_of_warp > 1 ? held.side_by_side : std::max(held.side_by_side, 2);
  return {.rows = static_cast<int>(rows_of_warp) * warps,
          .num_warps = warps,
          .min_ctas_per_sm = warps > 1 ? kWarpsPerSm / warps : 0};
}

// Rows of a warp need no barrier, and CTAs of one warp wait for no other row; rows that a CTA does not hold are a
// cluster's.
std::optional<RowConfig> in_registers(const Machine& machine, const SparsemaxOptions& o, const Held& held) {
  const int64_t rows_of_warp = program::kWarpThreads * held.of_rows / tile_width(o.cols);
  if (rows_of_warp > 1 || (rows_of_warp == 1 && held.one_each)) return side_by_side(held, rows_of_warp);
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
    return "sparsemax has whole rows in the registers of a cluster; use keep=registers and num_ctas";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  if (!config.whole() || config.num_ctas == 1) return refused(machine, o.type, o.cols, config);
  if (machine.max_cluster < config.num_ctas)
    return std::string(machine.name) + " has clusters of at most " + std::to_string(machine.max_cluster) + " CTAs";
  if (config.rows != 1) return "a cluster has a tile of one row; use rows=1, or num_ctas=1";
  RowConfig one = config;  // CTA with the threads of all
  one.num_warps *= config.num_ctas;
  one.num_ctas = 1;
  return refused(machine, o.type, tile_of(o, config), one);
}

// A piece has a vector of each thread.
int64_t pieces_of(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  if (!machine.is_gpu() || o.cols % vector_width(o.type) != 0) return 1;
  const int64_t columns = config.columns(o.type, o.cols);
  int64_t pieces = 1;
  while (pieces * 2 <= config.held(o.type, o.cols) && columns % (pieces * 2 * vector_width(o.type)) == 0) pieces *= 2;
  return pieces;
}

Operation operation(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config, const char* name,
                    void (*program)(KernelBuilder&, const SparsemaxMeta&)) {
  SparsemaxMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = tile_of(o, config);
  if (config.rows > 1) meta.pieces = pieces_of(machine, o, config);
  if (config.rows == 1)
    meta.lanes =
        block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas, o.cols % vector_width(o.type) == 0);
  // Approximate divisions of so many elements spill: 8192x32768 in bf16 took 753 us on an H100; 339 on an H200 with exact ones.
  const int64_t threads = int64_t{program::kWarpThreads} * config.num_warps;
  meta.exact_division = machine.is_gpu() && config.rows == 1 && config.num_ctas == 1 && !meta.looped &&
                        meta.block >= kExactFrom * threads;
  return operation_of(record_step(name, o.type, program, meta, config.launch()));
}

Operation forward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_forward_kernel.name, &sparsemax_forward);
}

Operation backward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_backward_kernel.name, &sparsemax_backward);
}

// Of so many arrays of rows.
template <int arrays>
Cost cost(const SparsemaxOptions& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const SparsemaxKernel sparsemax_forward_kernel{
    "sparsemax_forward", "sparsemax of rows", &valid, &heuristic<held_forward>, &forward, &cost<2>};
const SparsemaxKernel sparsemax_backward_kernel{
    "sparsemax_backward", "gradient of sparsemax", &valid, &heuristic<held_backward>, &backward, &cost<3>};

Operation sparsemax_forward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_forward_kernel(machine, options);
}

Operation sparsemax_backward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
