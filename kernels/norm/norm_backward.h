// What the launch rules of RMSNorm's and LayerNorm's backward share.
//
// One program per SM takes row blocks p, p + programs, ...; each keeps its part of the parameters' gradients in
// registers and writes it to a scratch buffer of partial sums at the end. Rows that one CTA cannot keep are shared by
// those of a cluster. Rows that are too wide for that take two kernels: d_x by rows, the parts by blocks of columns;
// where d_x is not wanted, which needs whole rows, the second of them does alone.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/launch.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/reduce/partial_count.h"
#include "ligerdsl/dsl/meta.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

// Who adds up the parts of the parameters' gradients.
enum class BackwardBy {
  rows,     // a CTA, for the rows that it takes; so do the CTAs of a cluster for their part of each row
  columns,  // a kernel of its own goes through blocks of columns
};

struct NormBackwardConfig {
  BackwardBy by = BackwardBy::rows;
  int rows = 1;  // of a tile: by=rows, or that of the parts without d_x, as what follows
  int num_warps = 16;
  int vectors = 2;             // of 16 bytes that a thread has of a tile
  int num_ctas = 1;            // that share the rows
  int stages = 3;              // tiles in shared memory, where they fit: the one at work and those on their way
  int programs_per_sm = 1;     // that each keep partial sums
  bool reload_weight = false;  // read the weight again for every row: it stays in the first-level cache

  // Of a tile; of the CTAs of a cluster together.
  int64_t columns(DType type) const {
    return int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type) * vectors / rows;
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
  DType type = f32;  // of the rows
  int64_t cols = 4096;
  int sums = 1;    // partial sums of a column: none, 1 (weight) or 2 (weight and bias)
  int inputs = 2;  // rows read: d_y, x unless d_bias alone is wanted, and perhaps d_sum
  bool d_x = true;
};

NormBackwardConfig norm_backward_heuristic(const Machine& machine, const NormBackwardShape& shape);
// Why rows of this shape cannot be taken so; empty: they can.
std::string norm_backward_refused(const Machine& machine, const NormBackwardShape& shape,
                                  const NormBackwardConfig& config);

// What differs between the families. Meta is a family's meta struct.
template <class Meta>
struct NormBackwardKernels {
  struct Part {
    const char* name;
    void (*build)(KernelBuilder&, const Meta&);
    Step step(const Meta& meta, Launch launch) const {
      return record_step(name, meta.type, build, meta, std::move(launch));
    }
  };
  Part by_rows;                       // d_x, and the partial sums where they fit
  Part by_columns;                    // the partial sums where they do not
  std::function<Step()> reduce;       // adds up the partial sums
  std::vector<std::string> partials;  // scratch buffers that hold them
};

namespace norm_backward_rule {

inline constexpr int64_t kColumns = 1024, kRows = 4;  // of a tile of `by_columns` beside `by_rows`

// One kernel.
template <class Meta>
std::vector<Step> whole_rows(Meta meta, const NormBackwardConfig& config, const NormBackwardKernels<Meta>& kernels,
                             const PartialCount& partials) {
  meta.rows = config.rows;
  meta.block = config.columns(meta.type);
  meta.reload_weight = config.reload_weight;
  meta.stages = config.stages;
  Launch launch =
      library_launch(meta.want_d_weight ? partials.of_rows : ceil_div(Size::rows(), config.rows), config.num_warps);
  launch.num_ctas = config.num_ctas;
  return {kernels.by_rows.step(meta, std::move(launch))};
}

// Two kernels. by_columns reads d_y, which by_rows may overwrite: it goes first.
template <class Meta>
std::vector<Step> blocks_of_rows(Meta meta, const NormBackwardConfig& config, const NormBackwardKernels<Meta>& kernels,
                                 const PartialCount& partials) {
  meta.looped = true;
  meta.block = config.columns(meta.type);
  Step by_rows = kernels.by_rows.step(meta, library_launch(Size::rows(), config.num_warps));
  if (!meta.want_d_weight) return {std::move(by_rows)};

  meta.block = kColumns;
  meta.rows = kRows;
  meta.stages = 2;
  const Size programs = partials.of_rows * ceil_div(meta.cols, kColumns);
  Step by_columns =
      kernels.by_columns.step(meta, library_launch(programs, warps_for(kRows * kColumns, meta.type, 2, 16)));
  return {std::move(by_columns), std::move(by_rows)};
}

// One kernel, without d_x.
template <class Meta>
std::vector<Step> sums_alone(Meta meta, const NormBackwardConfig& config, const NormBackwardKernels<Meta>& kernels,
                             const PartialCount& partials) {
  meta.rows = config.rows;
  meta.block = config.columns(meta.type);
  meta.stages = config.stages;
  return {kernels.by_columns.step(
      meta, library_launch(partials.of_rows * ceil_div(meta.cols, meta.block), config.num_warps))};
}

}  // namespace norm_backward_rule

// The whole backward of a family with these options.
template <class Meta>
Operation norm_backward(const Machine& machine, const Meta& options, const NormBackwardConfig& config,
                        const NormBackwardKernels<Meta>& kernels) {
  namespace rule = norm_backward_rule;
  Operation op;
  const bool by_rows = config.by == BackwardBy::rows;
  // By columns beside d_x there are at least 16 tiles of rows for each partial sum.
  const PartialCount partials =
      options.without_d_x
          ? column_partials(machine, options.cols, config.rows, config.columns(options.type), config.programs_per_sm)
          : norm_partials(machine, by_rows ? config.rows : 16 * rule::kRows, config.programs_per_sm, config.num_ctas);
  op.steps = options.without_d_x ? rule::sums_alone(options, config, kernels, partials)
             : by_rows           ? rule::whole_rows(options, config, kernels, partials)
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
