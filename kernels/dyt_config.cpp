#include "kernels/dyt_config.h"

#include "kernels/norm_backward.h"
#include "kernels/record.h"
#include "kernels/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

ColumnSumsConfig heuristic(const Machine& machine, const DytOptions& o) {
  return column_sums_config(machine, o.type, o.cols, {.arrays = 2, .sums = 3});
}

std::string valid(const Machine& machine, const DytOptions& o, const ColumnSumsConfig& config) {
  return refused_column_tile(machine, o.type, o.cols, config.rows, config.columns(o.type), o.sums());
}

Step reduce_step(const Machine& machine, const DytOptions& o) {
  const TileShape tile = partials_tile(machine);
  DytMeta meta{o};
  meta.rows = tile.rows;
  meta.block = tile.cols;
  const int64_t columns = o.want_d_weight || o.want_d_bias ? ceil_div(o.cols, tile.cols) : 0;
  return record_step("dyt_reduce", o.d_weight_type, &dyt_reduce, meta,
                     library_launch(columns + int64_t{o.want_d_alpha}, tile.num_warps));
}

Operation build(const Machine& machine, const DytOptions& o, const ColumnSumsConfig& config) {
  DytMeta meta{o};
  meta.rows = config.rows;
  meta.block = config.columns(o.type);
  meta.stages = config.stages;
  meta.lanes = machine.is_gpu();  // a CPU adds a tile's rows in registers
  const PartialCount parts = column_partials(machine, o.cols, meta.rows, meta.block, config.programs_per_sm);
  const int64_t blocks = ceil_div(o.cols, meta.block);
  Operation op = operation_of(record_step(dyt_backward_kernel.name, o.type, &dyt_backward, meta,
                                          library_launch(parts.of_rows * blocks, config.num_warps)));
  if (o.sums() == 0) return op;
  op.steps.push_back(reduce_step(machine, o));
  const auto columns = [&](const char* name) {
    op.workspace.push_back(
        {.name = name, .dtype = f32, .shape = {parts.of_rows, o.cols}, .room = {parts.most, o.cols}});
  };
  if (o.want_d_weight) columns("weight_partials");
  if (o.want_d_bias) columns("bias_partials");
  if (o.want_d_alpha)
    op.workspace.push_back(
        {.name = "alpha_partials", .dtype = f32, .shape = {parts.of_rows * blocks}, .room = {parts.most * blocks}});
  return op;
}

Cost cost(const DytOptions& o, int64_t rows) {
  const int arrays = o.without_d_x ? 2 : 3;
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const DytBackward dyt_backward_kernel{"dyt_backward", "gradient of DyT", &valid, &heuristic, &build, &cost};

Operation dyt_backward(const Machine& machine, const DytOptions& options) {
  return dyt_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
