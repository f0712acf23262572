#include "kernels/core/record.h"
#include "kernels/norm/dyt.h"
#include "kernels/reduce/partial_count.h"
#include "kernels/reduce/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

// Returns a schedule for arithmetic that takes as long as the erf form of GELU. Narrow tiles of
// several rows load weight and bias once for all their rows, so on an H200 tiles of 16 rows are
// faster than tiles of one row.
ElementwiseConfig heuristic_forward(const Machine& machine, const DytOptions& o) {
  if (machine.is_gpu() && size_of(o.type) == 2 && o.cols >= 256)
    return {.rows = 16, .num_warps = 2, .vectors = 4};
  return elementwise_config(machine, o.type, o.cols,
                            {.arrays = 2, .vectors = work_vectors(machine, o.type)});
}

Operation forward(const Machine&, const DytOptions& o, const ElementwiseConfig& config) {
  return by_tiles(dyt_forward_kernel.name, &dyt_forward, DytMeta{o}, config);
}

ColumnSumsConfig heuristic_backward(const Machine& machine, const DytOptions& o) {
  return column_sums_config(machine, o.type, o.cols, {.arrays = 2, .sums = 3});
}

std::string valid_backward(const Machine& machine, const DytOptions& o,
                           const ColumnSumsConfig& config) {
  return refused_column_tile(machine, o.type, o.cols, config.rows, config.columns(o.type),
                             o.sums());
}

Operation backward(const Machine& machine, const DytOptions& o, const ColumnSumsConfig& config) {
  DytMeta meta{o};
  meta.rows = config.rows;
  meta.block = config.columns(o.type);
  meta.stages = config.stages;
  meta.lanes = machine.is_gpu();  // a CPU adds a tile's rows in registers
  const PartialCount parts =
      column_partials(machine, o.cols, meta.rows, meta.block, config.programs_per_sm);
  const int64_t blocks = ceil_div(o.cols, meta.block);
  Operation op =
      operation_of(record_step(dyt_backward_kernel.name, o.type, &dyt_backward, meta,
                               library_launch(parts.of_rows * blocks, config.num_warps)));
  if (o.sums() == 0) return op;
  std::vector<PartialSums> sums;
  const auto add = [&](const char* out, const char* partials, int64_t cols, int64_t programs) {
    sums.push_back({.out = out,
                    .partials = partials,
                    .type = o.d_weight_type,
                    .cols = cols,
                    .accumulate = o.accumulate});
    op.workspace.push_back({.name = partials,
                            .dtype = f32,
                            .shape = {parts.of_rows * programs, cols},
                            .room = {parts.most * programs, cols}});
  };
  if (o.want_d_weight) add("d_weight", "weight_partials", o.cols, 1);
  if (o.want_d_bias) add("d_bias", "bias_partials", o.cols, 1);
  if (o.want_d_alpha) add("d_alpha", "alpha_partials", 1, blocks);
  op.steps.push_back(reduce_partials(machine, std::move(sums)));
  return op;
}

Cost cost_backward(const DytOptions& o, int64_t rows) {
  const int arrays = o.without_d_x ? 2 : 3;
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const DytForward dyt_forward_kernel{"dyt_forward",      "DyT: dynamic tanh of rows",
                                    &valid<DytOptions>, &heuristic_forward,
                                    &forward,           &cost<2, DytOptions>};

const DytBackward dyt_backward_kernel{"dyt_backward",      "gradient of DyT", &valid_backward,
                                      &heuristic_backward, &backward,         &cost_backward};

Operation dyt_forward(const Machine& machine, const DytOptions& options) {
  return dyt_forward_kernel(machine, options);
}

Operation dyt_backward(const Machine& machine, const DytOptions& options) {
  return dyt_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
