// What the launch rules of RMSNorm's and LayerNorm's backward share.
//
// One program per SM takes row blocks p, p + programs, ...; each keeps its part of the parameters' gradients in
// registers and writes it to a scratch buffer of partial sums at the end. Rows that one CTA cannot keep are shared by
// those of a cluster. Rows that are too wide for that take two kernels: d_x by rows, the parts by blocks of columns.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/launch.h"
#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {

struct NormBackwardTile : TileShape {
  bool reload_weight = false;  // read the weight again for every row: it stays in the first-level cache
  int num_ctas = 1;            // that share the rows
  int stages = 3;              // row blocks in shared memory, where they fit: the one at work and those on their way
};

struct NormBackwardShape {
  DType type = f32;  // of the rows
  int64_t cols = 4096;
  int sums = 1;    // partial sums of a column: none, 1 (weight) or 2 (weight and bias)
  int inputs = 2;  // rows read: x, d_y and perhaps d_sum
};

// Whether one program can keep the partial sums of every column.
bool norm_backward_fits(const Machine& machine, const NormBackwardShape& shape);

// Rows, columns and warps of the programs that keep them.
NormBackwardTile norm_backward_tile(const Machine& machine, const NormBackwardShape& shape);

// Row blocks that each keep partial sums: enough to fill the machine, few enough for a cheap reduction. Of clusters, no
// more than run at a time.
struct PartialCount {
  Size of_rows = 1;  // of the call's rows
  Size most = 1;     // of so many rows or fewer
};
PartialCount norm_partials(const Machine& machine, int64_t tile_rows, int per_sm, int num_ctas = 1);

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

inline constexpr int64_t kColumns = 1024, kRows = 4;  // of a tile of `by_columns`

// One kernel.
template <class Meta>
std::vector<Step> whole_rows(Meta meta, const NormBackwardTile& tile, const NormBackwardKernels<Meta>& kernels,
                             const PartialCount& partials) {
  meta.rows = tile.rows;
  meta.block = tile.cols;
  meta.reload_weight = tile.reload_weight;
  meta.stages = tile.stages;
  const Size programs = meta.want_d_weight ? partials.of_rows : ceil_div(Size::rows(), tile.rows);
  Launch launch = library_launch(programs, tile.num_warps);
  launch.num_ctas = tile.num_ctas;
  return {kernels.by_rows.step(meta, std::move(launch))};
}

// Two kernels. by_columns reads d_y, which by_rows may overwrite: it goes first.
template <class Meta>
std::vector<Step> blocks_of_rows(Meta meta, const NormBackwardKernels<Meta>& kernels, const PartialCount& partials) {
  meta.looped = true;
  meta.block = kRowBlock;
  Step by_rows = kernels.by_rows.step(meta, library_launch(Size::rows(), warps_for(kRowBlock, meta.type, 2, 16)));
  if (!meta.want_d_weight) return {std::move(by_rows)};

  meta.block = kColumns;
  meta.rows = kRows;
  const Size programs = partials.of_rows * ceil_div(meta.cols, kColumns);
  Step by_columns =
      kernels.by_columns.step(meta, library_launch(programs, warps_for(kRows * kColumns, meta.type, 2, 16)));
  return {std::move(by_columns), std::move(by_rows)};
}

}  // namespace norm_backward_rule

// The whole backward of a family with these options.
template <class Meta>
Operation norm_backward(const Machine& machine, const Meta& options, const NormBackwardShape& shape,
                        const NormBackwardKernels<Meta>& kernels) {
  namespace rule = norm_backward_rule;
  Operation op;
  PartialCount partials;
  if (norm_backward_fits(machine, shape)) {
    const NormBackwardTile tile = norm_backward_tile(machine, shape);
    partials = norm_partials(machine, tile.rows, 1, tile.num_ctas);
    op.steps = rule::whole_rows(options, tile, kernels, partials);
  } else {
    partials = norm_partials(machine, 16 * rule::kRows, 2);  // at least 16 tiles of rows for each partial sum
    op.steps = rule::blocks_of_rows(options, kernels, partials);
  }
  if (!options.want_d_weight) return op;
  op.steps.push_back(kernels.reduce());
  for (const std::string& name : kernels.partials)
    op.workspace.push_back({.name = name,
                            .dtype = DType::f32,
                            .shape = {partials.of_rows, shape.cols},
                            .room = {partials.most, shape.cols}});
  return op;
}

}  // namespace ligerdsl::kernels
