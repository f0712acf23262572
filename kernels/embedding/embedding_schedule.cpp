#include <bit>

#include "kernels/core/record.h"
#include "kernels/embedding/embedding.h"

namespace ligerdsl::kernels {
namespace {

constexpr int kMostRows = 8;  // per program

std::string valid_forward(const Machine&, const EmbeddingOptions& o,
                          const ElementwiseConfig& config) {
  if (config.rows > kMostRows)
    return "rows: expected at most " + std::to_string(kMostRows) + ", got " +
           std::to_string(config.rows) + "; use fewer rows";
  const int64_t vectors = config.columns(o.type, o.cols) / vector_width(o.type);
  if (config.num_warps > 1 && vectors < program::kWarpThreads * config.num_warps)
    return "vectors per row or block: expected at least " +
           std::to_string(program::kWarpThreads * config.num_warps) + " (one per thread), got " +
           std::to_string(vectors) + "; use fewer warps";
  return refused(o.type, o.cols, config);
}

// Returns a schedule in which a thread loads four vectors per index of a wide row. An H200 starts a
// CTA every 1.3 to 1.4 ns, in which its memory reads 3 KB and writes 3 KB. So programs compute
// several rows if rows are short.
ElementwiseConfig heuristic_forward(const Machine& machine, const EmbeddingOptions& o) {
  constexpr int64_t kVectors = 4, kLeastBytes = 3072;
  const int64_t most = machine.is_gpu() ? 1024 * vector_width(o.type) : 4096,
                width = tile_width(o.cols);
  ElementwiseConfig config{.vectors = width <= most ? 0 : static_cast<int>(kVectors)};
  while (machine.is_gpu() && config.rows < kMostRows &&
         config.rows * width * size_of(o.type) < kLeastBytes)
    config.rows *= 2;
  config.num_warps =
      warps_for(std::min(width, most), o.type, std::max<int64_t>(kVectors / config.rows, 1), 8);
  return config;
}

Operation forward(const Machine&, const EmbeddingOptions& o, const ElementwiseConfig& config) {
  EmbeddingMeta meta{o};
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  const Size programs = ceil_div(Size::rows(), meta.rows) * ceil_div(o.cols, meta.block);
  return {.steps = {record_step(embedding_forward_kernel.name, o.type, &embedding_forward, meta,
                                library_launch(programs, config.num_warps))}};
}

Cost forward_cost(const EmbeddingOptions& o, int64_t rows) {
  const double row = static_cast<double>(o.cols * size_of(o.type)), index = size_of(o.index_type);
  return {(2 * row + index) * static_cast<double>(rows) +
          row * static_cast<double>(std::min(o.positions, rows))};
}

int64_t widest_block(const EmbeddingOptions& o) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(o.cols)));
}

// Returns a schedule in which a thread has two vectors of a row, because most rows of a large table
// have no index, and their programs only write. A minimum of 640 or 1024 resident threads per SM
// lets ptxas use enough registers to keep 16 or 8 vectors in flight; by default it loads one at a
// time.
//
// In a large table with short rows, a program computes four rows, which is much faster than one row
// on an H200.
EmbeddingBackwardConfig heuristic_backward(const Machine& machine, const EmbeddingOptions& o) {
  // in_order has one program per block of columns. So wide rows are divided into two or more
  // blocks, which run on different cores.
  const bool in_order = !machine.is_gpu() && o.d_table_type == f32;
  const int64_t on_cpu = in_order && o.cols >= 2048 ? 1024 : 4096;
  const int64_t most = machine.is_gpu() ? 256 * vector_width(o.type) : on_cpu;
  EmbeddingBackwardConfig config{.block = static_cast<int>(std::min(widest_block(o), most))};
  config.num_warps = warps_for(config.block, o.type, 2);
  constexpr int64_t kFewBytes = 4096, kCtasPerSm = 16;
  constexpr int kRows = 4;
  if (machine.is_gpu() && config.block * size_of(o.d_table_type) <= kFewBytes &&
      o.vocabulary >= kRows * kCtasPerSm * machine.sms)
    config.rows = kRows;
  if (!machine.is_gpu()) {
    config.rows = 16;
    config.part = config.scan = 256;
    config.in_order = in_order;
  }
  return config;
}

std::string valid_backward(const Machine&, const EmbeddingOptions& o,
                           const EmbeddingBackwardConfig& config) {
  if (config.in_order && o.d_table_type != f32)
    return "in_order=true requires d_table_type=f32; use in_order=false";
  constexpr int64_t kMostHeld = 4;  // vectors per thread of each row in flight
  if (config.block > widest_block(o))
    return "a block of " + std::to_string(config.block) +
           " columns is wider than a row; use block=" + std::to_string(widest_block(o)) +
           " or less";
  const int64_t threads = program::kWarpThreads * config.num_warps,
                vectors = config.block / vector_width(o.type);
  if (config.num_warps > 1 && vectors < threads)
    return "vectors per block: expected at least " + std::to_string(threads) +
           " (one per thread), got " + std::to_string(vectors) + "; use fewer warps";
  if (vectors > kMostHeld * threads)
    return "vectors per thread of each row: expected at most " + std::to_string(kMostHeld) +
           ", got " + std::to_string(ceil_div(vectors, threads)) +
           "; use more warps or a smaller block";
  if (config.part < config.scan)
    return "part: expected at least scan=" + std::to_string(config.scan) + ", got " +
           std::to_string(config.part) + "; use a larger part or a smaller scan";
  return "";
}

Operation backward(const Machine&, const EmbeddingOptions& o,
                   const EmbeddingBackwardConfig& config) {
  return config.in_order ? embedding_backward_in_order(o, config)
                         : embedding_backward_steps(o, config);
}

// Returns the bytes of d_out, the indices, d_table and d_position_table.
Cost backward_cost(const EmbeddingOptions& o, int64_t rows) {
  const double row = static_cast<double>(o.cols * size_of(o.type) + size_of(o.index_type)),
               row_of_table =
                   static_cast<double>(o.cols * size_of(o.d_table_type)) * (o.accumulate ? 2 : 1);
  const double row_of_positions =
      static_cast<double>(o.cols * size_of(o.d_position_type)) * (o.accumulate_positions ? 2 : 1);
  return {row * static_cast<double>(rows) + row_of_table * static_cast<double>(o.vocabulary) +
          row_of_positions * static_cast<double>(o.positions)};
}

}  // namespace

const EmbeddingForward embedding_forward_kernel{
    "embedding_forward", "rows of a table by index", &valid_forward, &heuristic_forward, &forward,
    &forward_cost};
const EmbeddingBackward embedding_backward_kernel{
    "embedding_backward", "gradient of the table", &valid_backward, &heuristic_backward, &backward,
    &backward_cost};

Operation embedding_forward(const Machine& machine, const EmbeddingOptions& options) {
  return embedding_forward_kernel(machine, options);
}

Operation embedding_backward(const Machine& machine, const EmbeddingOptions& options) {
  return embedding_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
