#include "kernels/column_sums_config.h"

#include <algorithm>
#include <bit>

#include "kernels/norm_backward.h"
#include "kernels/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

// On a GPU a row of a tile is a vector of every thread of a warp, 512 bytes one after the other.
constexpr ColumnSumsConfig kOnGpu{.num_warps = 8, .vectors = 4, .stages = 2, .programs_per_sm = 4};
// On a CPU a tile's sums stay in the first-level cache.
constexpr int64_t kColumnsOnCpu = 1024, kRowsOnCpu = 4;
constexpr int kProgramsOnCpu = 64;

int64_t lanes_of(DType type) {
  return program::kWarpThreads * vector_width(type);
}

ColumnSumsConfig heuristic(const Machine& machine, const ColumnSumsOptions& o) {
  const int64_t most = machine.is_gpu() ? lanes_of(o.type) : kColumnsOnCpu;
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(o.cols)));
  const int64_t columns = std::clamp(whole, vector_width(o.type), most);
  ColumnSumsConfig config = kOnGpu;
  if (!machine.is_gpu()) {
    config = {.vectors = 1, .stages = 1, .programs_per_sm = 1};
    config.num_warps = static_cast<int>(std::max<int64_t>(kRowsOnCpu * columns / lanes_of(o.type), 1));
  }
  config.rows = static_cast<int>(lanes_of(o.type) * config.num_warps * config.vectors / columns);
  return config;
}

std::string valid(const Machine& machine, const ColumnSumsOptions& o, const ColumnSumsConfig& config) {
  const int64_t columns = config.columns(o.type), vector = vector_width(o.type);
  if (columns < vector) return "a tile's row of less than a vector; use fewer rows, or more vectors or warps";
  if (columns > vector && columns >= 2 * o.cols)
    return "a tile of " + std::to_string(columns) +
           " columns would be empty for the most part; use more rows, or fewer vectors or warps";
  return config.rows > 1 ? refused_meeting(machine, config.rows * columns) : "";
}

Operation backward(const Machine& machine, const ColumnSumsOptions& o, const ColumnSumsConfig& config) {
  ColumnSumsMeta meta{o};
  meta.rows = config.rows;
  meta.block = config.columns(o.type);
  meta.stages = config.stages;
  const int64_t blocks = ceil_div(o.cols, meta.block);
  const int64_t programs = machine.is_gpu() ? machine.sms * config.programs_per_sm : kProgramsOnCpu;
  const PartialCount partials =
      partial_count(ceil_div(Size::rows(), meta.rows), std::max<int64_t>(programs / blocks, 1));
  return {.steps = {record_step("column_sums", o.type, &column_sums, meta,
                                library_launch(partials.of_rows * blocks, config.num_warps)),
                    reduce_partials(machine, "d_bias", o.out_type, o.accumulate, o.cols)},
          .workspace = {{.name = "partials",
                         .dtype = DType::f32,
                         .shape = {partials.of_rows, o.cols},
                         .room = {partials.most, o.cols}}}};
}

Cost cost(const ColumnSumsOptions& o, int64_t rows) {
  return {static_cast<double>(o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const BiasAddBackward bias_add_backward_kernel{
    "bias_add_backward", "gradient of a bias: sums of columns", &valid, &heuristic, &backward, &cost};

Operation bias_add_backward(const Machine& machine, const ColumnSumsOptions& options) {
  return bias_add_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
