#include <bit>

#include "kernels/core/record.h"
#include "kernels/embedding/embedding.h"

namespace ligerdsl::kernels {
namespace {

constexpr int kMostRows = 8;  // of a program

std::string valid_forward(const Machine&, const EmbeddingOptions& o, const ElementwiseConfig& config) {
  if (config.rows > kMostRows)
    return "a program copies " + std::to_string(kMostRows) + " rows at most; use rows=" + std::to_string(kMostRows);
  const int64_t vectors = config.columns(o.type, o.cols) / vector_width(o.type);
  if (config.num_warps > 1 && vectors < program::kWarpThreads * config.num_warps)
    return "a row of " + std::to_string(vectors) + " vectors leaves threads without one; use fewer warps";
  return refused(o.type, o.cols, config);
}

// Four vectors of a thread wait for one index together. An H200 starts a CTA every 1.3 to 1.4 ns, in which its memory moves 6 KB: programs of
// less read several rows. 16384x768 of bf16 takes 23.2 us by programs of a row, 17.9 by two, 18.4 by four; with positions the same.
ElementwiseConfig heuristic_forward(const Machine& machine, const EmbeddingOptions& o) {
  constexpr int64_t kVectors = 4, kLeastBytes = 3072;
  const int64_t most = machine.is_gpu() ? 1024 * vector_width(o.type) : 4096, width = tile_width(o.cols);
  ElementwiseConfig config{.vectors = width <= most ? 0 : static_cast<int>(kVectors)};
  while (machine.is_gpu() && config.rows < kMostRows && config.rows * width * size_of(o.type) < kLeastBytes)
    config.rows *= 2;
  config.num_warps = warps_for(std::min(width, most), o.type, std::max<int64_t>(kVectors / config.rows, 1), 8);
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
  return {(2 * row + index) * static_cast<double>(rows) + row * static_cast<double>(std::min(o.positions, rows))};
}

int64_t widest_block(const EmbeddingOptions& o) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(o.cols)));
}

// A thread has two vectors of a row: most rows of a large table are not named, and their programs only write.
// Without a floor for the occupancy ptxas saves registers and lets the gradients come one at a time: an SM is to have
// 640 threads with 16 vectors under way each, and 1024 with 8. Where a block of a long table is few bytes a program makes it of four rows: us of all
// launches by one and by four, 16384 indices of 50257 rows of 768 bf16 84.8 and 53.3, f32 91.4 and 78.7; 32768 of 128256 rows of 2048 bf16 228
// and 208 (f32, in two blocks, 411 by one and 373 by two), 16384 of 32000 rows of 4096 143 and 128; f32 of 2048 columns in one block, from
// bf16, 339 and 350 (an H200).
EmbeddingBackwardConfig heuristic_backward(const Machine& machine, const EmbeddingOptions& o) {
  // Of sums in order, which are one program a block: two threads share wide rows. 32768 rows of 2048 f32, V = 32000, ms: two cores 27 to 29, by
  // one block 41 to 42; one core 56, 43 to 46.
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

std::string valid_backward(const Machine&, const EmbeddingOptions& o, const EmbeddingBackwardConfig& config) {
  if (config.in_order && o.d_table_type != f32) return "sums in order are of an f32 table; use in_order=false";
  constexpr int64_t kMostHeld = 4;  // vectors of a thread, of each of the eight rows under way
  if (config.block > widest_block(o))
    return "a block of " + std::to_string(config.block) +
           " columns is wider than a row; use block=" + std::to_string(widest_block(o)) + " or less";
  const int64_t threads = program::kWarpThreads * config.num_warps, vectors = config.block / vector_width(o.type);
  if (config.num_warps > 1 && vectors < threads)
    return "a block of " + std::to_string(vectors) + " vectors leaves threads without one; use fewer warps";
  if (vectors > kMostHeld * threads)
    return "a thread would hold " + std::to_string(vectors / threads) + " vectors of each row, at most " +
           std::to_string(kMostHeld) + " are possible; use more warps or a smaller block";
  if (config.part < config.scan)
    return "a part is of whole scans; use part=" + std::to_string(config.scan) + " or more, or a smaller scan";
  return "";
}

Operation backward(const Machine&, const EmbeddingOptions& o, const EmbeddingBackwardConfig& config) {
  return config.in_order ? embedding_backward_in_order(o, config) : embedding_backward_steps(o, config);
}

// The gradients of the rows and that of the table.
Cost backward_cost(const EmbeddingOptions& o, int64_t rows) {
  const double row = static_cast<double>(o.cols * size_of(o.type) + size_of(o.index_type)),
               row_of_table = static_cast<double>(o.cols * size_of(o.d_table_type)) * (o.accumulate ? 2 : 1);
  const double row_of_positions =
      static_cast<double>(o.cols * size_of(o.d_position_type)) * (o.accumulate_positions ? 2 : 1);
  return {row * static_cast<double>(rows) + row_of_table * static_cast<double>(o.vocabulary) +
          row_of_positions * static_cast<double>(o.positions)};
}

}  // namespace

const EmbeddingForward embedding_forward_kernel{
    "embedding_forward", "rows of a table by index", &valid_forward, &heuristic_forward, &forward, &forward_cost};
const EmbeddingBackward embedding_backward_kernel{
    "embedding_backward", "gradient of the table", &valid_backward, &heuristic_backward, &backward, &backward_cost};

Operation embedding_forward(const Machine& machine, const EmbeddingOptions& options) {
  return embedding_forward_kernel(machine, options);
}

Operation embedding_backward(const Machine& machine, const EmbeddingOptions& options) {
  return embedding_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
