// Launch rules of the backward of RMSNorm and LayerNorm.
//
// With parameter gradients, there is a fixed number of programs per SM, usually one. Program p
// processes row blocks p, p + programs, ... It holds its partial sums of the gradients in
// registers, and stores them to a scratch buffer at the end. If one CTA cannot hold a row, the CTAs
// of a cluster share the row. Wider rows use two kernels: `by_rows` computes d_x, and `by_columns`
// the partial sums in blocks of columns. Without d_x, only `by_columns` runs.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/aligned_rows.h"
#include "kernels/core/launch.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/reduce/partial_count.h"
#include "ligerdsl/dsl/meta.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

// Kernel that computes the partial sums of the parameter gradients.
enum class BackwardBy {
  rows,     // the kernel of d_x, whose CTAs (or clusters) have whole rows
  columns,  // a separate kernel, whose programs have blocks of columns
};

struct NormBackwardConfig {
  BackwardBy by = BackwardBy::rows;
  int rows = 1;  // rows per tile with by=rows, or without d_x
  int num_warps = 16;
  int vectors = 2;             // 16-byte vectors per thread and tile
  int num_ctas = 1;            // CTAs per cluster, which share each row
  int stages = 3;              // tiles in use or in flight, in shared memory if they fit
  int programs_per_sm = 1;     // programs per SM, each with its own partial sums
  bool reload_weight = false;  // load the weight again for every row; it stays in L1

  // Columns per tile, over all CTAs of a cluster.
  int64_t columns(DType type) const {
    return int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type) * vectors /
           rows;
  }

  template <class V>
  void visit(V&& v) {
    v("by", by, {"rows", "columns"}, Bits::batch);
    v("rows", rows, powers_of_two(1, 8192), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("num_ctas", num_ctas, powers_of_two(1, 16), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("programs_per_sm", programs_per_sm, choices({1, 2, 3, 4}), Bits::batch);
    v("reload_weight", reload_weight, Bits::same);
  }
};

struct NormBackwardShape {
  DType type = f32;  // dtype of the rows
  int64_t cols = 4096;
  int sums = 1;    // partial sums per column: 0, 1 (weight or bias) or 2 (both)
  int inputs = 2;  // input arrays: d_y, x (unless only d_bias is wanted), and d_sum if given
  bool d_x = true;
};

// Returns row_period() if rows are ragged and tiles begin at 16-byte boundaries; otherwise 1. Such
// tiles have one row.
int64_t aligned_period(const Machine& machine, const NormBackwardShape& shape,
                       const NormBackwardConfig& config);

NormBackwardConfig norm_backward_heuristic(const Machine& machine, const NormBackwardShape& shape);
// Returns the reason why rows of this shape cannot have this schedule; empty if they can.
std::string norm_backward_refused(const Machine& machine, const NormBackwardShape& shape,
                                  const NormBackwardConfig& config);

// Kernels of a family. Meta is the family's meta struct.
template <class Meta>
struct NormBackwardKernels {
  struct Part {
    const char* name;
    void (*build)(KernelBuilder&, const Meta&);
    Step step(const Meta& meta, Launch launch) const {
      return record_step(name, meta.type, build, meta, std::move(launch));
    }
  };
  Part by_rows;                       // computes d_x, and the partial sums if they fit in registers
  Part by_columns;                    // computes the partial sums otherwise
  std::function<Step()> reduce;       // reduces the partial sums
  std::vector<std::string> partials;  // scratch buffers of the partial sums
};

namespace norm_backward_rule {

inline constexpr int64_t kColumns = 1024, kRows = 4;  // tile of `by_columns` if `by_rows` runs too

// Returns the step whose tiles have whole rows. `period` is the result of aligned_period().
template <class Meta>
std::vector<Step> whole_rows(Meta meta, const NormBackwardConfig& config,
                             const NormBackwardKernels<Meta>& kernels, const PartialCount& partials,
                             int64_t period) {
  meta.rows = config.rows;
  meta.block = config.columns(meta.type);
  meta.reload_weight = config.reload_weight;
  meta.stages = config.stages;
  meta.aligned_blocks = period > 1;
  meta.row_period = period;
  Launch launch =
      library_launch(meta.want_d_weight ? partials.of_rows : ceil_div(Size::rows(), config.rows),
                     config.num_warps);
  launch.num_ctas = config.num_ctas;
  if (meta.aligned_blocks && config.programs_per_sm > 1)
    launch.min_ctas_per_sm = config.programs_per_sm;
  return {kernels.by_rows.step(meta, std::move(launch))};
}

// Returns the step by_rows, preceded by by_columns if parameter gradients are wanted. by_rows runs
// last, because it may overwrite d_y.
template <class Meta>
std::vector<Step> blocks_of_rows(Meta meta, const NormBackwardConfig& config,
                                 const NormBackwardKernels<Meta>& kernels,
                                 const PartialCount& partials) {
  meta.looped = true;
  meta.block = config.columns(meta.type);
  Step by_rows = kernels.by_rows.step(meta, library_launch(Size::rows(), config.num_warps));
  if (!meta.want_d_weight) return {std::move(by_rows)};

  meta.block = kColumns;
  meta.rows = kRows;
  meta.stages = 2;
  const Size programs = partials.of_rows * ceil_div(meta.cols, kColumns);
  Step by_columns = kernels.by_columns.step(
      meta, library_launch(programs, warps_for(kRows * kColumns, meta.type, 2, 16)));
  return {std::move(by_columns), std::move(by_rows)};
}

// Returns the step that computes only the partial sums, without d_x.
template <class Meta>
std::vector<Step> sums_alone(Meta meta, const NormBackwardConfig& config,
                             const NormBackwardKernels<Meta>& kernels,
                             const PartialCount& partials) {
  meta.rows = config.rows;
  meta.block = config.columns(meta.type);
  meta.stages = config.stages;
  return {kernels.by_columns.step(
      meta, library_launch(partials.of_rows * ceil_div(meta.cols, meta.block), config.num_warps))};
}

}  // namespace norm_backward_rule

// Returns a family's backward with these options.
template <class Meta>
Operation norm_backward(const Machine& machine, const Meta& options,
                        const NormBackwardConfig& config,
                        const NormBackwardKernels<Meta>& kernels) {
  namespace rule = norm_backward_rule;
  Operation op;
  const bool by_rows = config.by == BackwardBy::rows;
  const int64_t period = aligned_period(
      machine, {.type = options.type, .cols = options.cols, .d_x = !options.without_d_x}, config);
  // If both kernels run, each partial sum covers at least 16 tiles of rows.
  const PartialCount partials =
      options.without_d_x ? column_partials(machine, options.cols, config.rows,
                                            config.columns(options.type), config.programs_per_sm)
                          : norm_partials(machine, by_rows ? config.rows : 16 * rule::kRows,
                                          config.programs_per_sm, config.num_ctas, period);
  op.steps = options.without_d_x ? rule::sums_alone(options, config, kernels, partials)
             : by_rows           ? rule::whole_rows(options, config, kernels, partials, period)
                                 : rule::blocks_of_rows(options, config, kernels, partials);
  if (!options.want_d_weight) return op;
  op.steps.push_back(kernels.reduce());
  for (const std::string& name : kernels.partials)
    op.workspace.push_back({.name = name,
                            .dtype = DType::f32,
                            .shape = {partials.of_rows, options.cols},
                            .room = {partials.most, options.cols}});
  return op;
}

}  // namespace ligerdsl::kernels
