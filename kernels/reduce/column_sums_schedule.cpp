#include <algorithm>
#include <bit>

#include "kernels/core/record.h"
#include "kernels/reduce/column_sums.h"
#include "kernels/reduce/partial_count.h"
#include "kernels/reduce/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

// Default on a GPU: a row of a tile is one vector for each thread of a warp, 512 contiguous bytes.
constexpr ColumnSumsConfig kOnGpu{.num_warps = 4, .vectors = 8, .stages = 2, .programs_per_sm = 4};

// Schedules for 16-bit elements on a GPU, whose partial sums take twice the registers of the
// inputs. The first matching rule applies. Times are from an H200, 16384 rows of bf16.
struct Rule {
  int sums;
  int64_t least_columns;
  ColumnSumsConfig config;
  const char* measured;
  bool divides = false;  // only if tiles divide the row, because masks would spill
};
constexpr Rule kRules[] = {
    {.sums = 3,
     .least_columns = 4096,
     .config = {.rows = 1, .num_warps = 1, .vectors = 4, .stages = 4, .programs_per_sm = 4},
     .measured = "DyT, 4096 and 14336 columns: 106 and 351 us; tiles of four rows, one vector per "
                 "thread: 126 and 427",
     .divides = true},
    {.sums = 3,
     .least_columns = 4096,
     .config = {.rows = 4, .num_warps = 4, .vectors = 4, .stages = 2, .programs_per_sm = 4},
     .measured = "DyT, 11008 columns: 275 us; tiles of four rows, one vector per thread: 325"},
    {.sums = 3,
     .least_columns = 256,
     .config = {.rows = 16, .num_warps = 2, .vectors = 4, .stages = 3, .programs_per_sm = 4},
     .measured = "DyT, 768 columns: 27 us; tiles of four rows, one vector per thread: 33; tiles of "
                 "one row: 30"},
    {.sums = 2,
     .least_columns = 2048,
     .config = {.rows = 1, .num_warps = 2, .vectors = 4, .stages = 3, .programs_per_sm = 4},
     .measured = "LayerNorm without d_x, 4096 and 8192 columns: 77 and 137 us; tiles of eight "
                 "rows, two vectors: 104 and 195"},
};
// On a CPU, a tile of narrow rows stays in L1 and its accumulator in registers. Wide rows come from
// memory. The CPU prefetches pages that are read completely, so tiles of wide rows are wider: the
// tile is in L2 and its accumulator in L1.
constexpr int64_t kColumnsOnCpu = 256, kWideColumnsOnCpu = 1024, kManyColumnsOnCpu = 2048,
                  kRowsOnCpu = 16;
constexpr int64_t kFewRowsOnCpu = 256;  // too little work for a second thread
// Bytes between addresses that map to the same set of an L1 cache; a set has 8 lines or more.
constexpr int64_t kPage = 4096;

int64_t lanes_of(DType type) {
  return program::kWarpThreads * vector_width(type);
}

ColumnSumsConfig heuristic(const Machine& machine, const ColumnSumsOptions& o) {
  return column_sums_config(machine, o.type, o.cols);
}

std::string valid(const Machine& machine, const ColumnSumsOptions& o,
                  const ColumnSumsConfig& config) {
  return refused_column_tile(machine, o.type, o.cols, config.rows, config.columns(o.type));
}

Operation backward(const Machine& machine, const ColumnSumsOptions& o,
                   const ColumnSumsConfig& config) {
  ColumnSumsMeta meta{o};
  meta.rows = config.rows;
  meta.block = config.columns(o.type);
  meta.stages = config.stages;
  meta.lanes = machine.is_gpu();  // a CPU adds a tile's rows in registers
  const PartialCount partials =
      column_partials(machine, o.cols, meta.rows, meta.block, config.programs_per_sm);
  const Size blocks = ceil_div(o.cols, meta.block);
  Operation op;
  const auto add_up = [&](const Size& programs) {
    op.steps.push_back(record_step("column_sums", o.type, &column_sums, meta,
                                   library_launch(programs, config.num_warps)));
  };
  meta.partial = false;
  if (partials.limit <= 1) {
    add_up(blocks);
    return op;
  }
  // On a CPU, a second launch takes as long as summing 10 rows of 768 columns, so few rows are one
  // part.
  const Size few = machine.is_gpu() ? 0 : kFewRowsOnCpu,
             many = where_at_least(Size::rows(), few + 1, 1);
  if (!machine.is_gpu()) add_up(blocks * where_at_least(few, Size::rows(), 1));
  const Size parts = machine.is_gpu() ? partials.of_rows : partials.of_rows * many;
  meta.partial = true;
  add_up(parts * blocks);
  op.steps.push_back(reduce_partials(
      machine,
      {{.out = "d_bias", .type = o.out_type, .cols = o.cols, .accumulate = o.accumulate}}));
  if (!machine.is_gpu()) op.steps.back().launch.grid[0] = op.steps.back().launch.grid[0] * many;
  op.workspace = {{.name = "partials",
                   .dtype = DType::f32,
                   .shape = {parts, o.cols},
                   .room = {partials.most, o.cols}}};
  return op;
}

Cost cost(const ColumnSumsOptions& o, int64_t rows) {
  return {static_cast<double>(o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

ColumnSumsConfig column_sums_config(const Machine& machine, DType type, int64_t cols,
                                    ColumnSumsWork work) {
  if (machine.is_gpu() && size_of(type) == 2) {
    for (const Rule& rule : kRules) {
      const bool fits = !rule.divides || cols % rule.config.columns(type) == 0;
      if (rule.sums == work.sums && rule.least_columns <= cols && fits) return rule.config;
    }
  }
  const int64_t on_cpu = cols < kManyColumnsOnCpu ? kColumnsOnCpu : kWideColumnsOnCpu;
  const int64_t most = machine.is_gpu() ? lanes_of(type) : on_cpu;
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(cols)));
  const int64_t columns = std::clamp(whole, vector_width(type), most);
  ColumnSumsConfig config = kOnGpu;
  // A thread has fewer vectors per array if there are more arrays or column sums.
  config.vectors = std::max(config.vectors / (work.arrays + work.sums - 1), 1);
  // With one sum and several arrays, one stage is faster than two (RMSNorm without d_x, H200).
  if (work.arrays > 1 && work.sums == 1) config.stages = 1;
  if (!machine.is_gpu()) {
    config = {.vectors = static_cast<int>(ceil_div(columns, kColumnsOnCpu)),
              .stages = 1,
              .programs_per_sm = 1};
    const int64_t rows = cols * size_of(type) % kPage == 0 ? kRowsOnCpu / 2 : kRowsOnCpu;
    config.num_warps =
        static_cast<int>(std::max<int64_t>(rows * columns / lanes_of(type) / config.vectors, 1));
  }
  config.rows = static_cast<int>(lanes_of(type) * config.num_warps * config.vectors / columns);
  return config;
}

std::string refused_column_tile(const Machine& machine, DType type, int64_t cols, int64_t tile_rows,
                                int64_t tile_cols, int sums) {
  const int64_t vector = vector_width(type);
  const std::string got = ", got " + std::to_string(tile_cols) + "; use ";
  if (tile_cols < vector)
    return "columns per tile: expected at least " + std::to_string(vector) + got +
           "fewer rows, or more vectors or warps";
  if (tile_cols > vector && tile_cols >= 2 * cols)
    return "columns per tile: expected fewer than " + std::to_string(2 * cols) + got +
           "more rows, or fewer vectors or warps";
  return tile_rows > 1 ? refused_sum_in_shared_memory(machine, tile_rows * tile_cols * sums) : "";
}

const BiasAddBackward bias_add_backward_kernel{
    "bias_add_backward", "gradient of a bias: column sums", &valid, &heuristic, &backward, &cost};

Operation bias_add_backward(const Machine& machine, const ColumnSumsOptions& options) {
  return bias_add_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
