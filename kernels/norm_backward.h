// What the launch rules of RMSNorm's and LayerNorm's backward share.
//
// One program per processor takes row blocks p, p + programs, ...; each keeps its part of the parameters' gradients in
// registers and writes it to a scratch buffer of partial sums at the end. Rows that are too wide for that take two
// kernels: d_x by rows, the parts by blocks of columns.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/launch.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {

struct NormBackwardTile : TileShape {
  bool reload_weight = false;  // read the weight again for every row: it stays in the first-level cache
};

struct NormBackwardShape {
  DType type = f32;  // of the rows
  int64_t cols = 4096;
  int sums = 1;    // partial sums of a column: 1 (weight) or 2 (weight and bias)
  int inputs = 2;  // rows read: x, d_y and perhaps d_sum
};

// Whether one program can keep the partial sums of every column.
bool norm_backward_fits(const Machine& machine, const NormBackwardShape& shape);

// Rows, columns and warps of the programs that keep them.
NormBackwardTile norm_backward_tile(const Machine& machine, const NormBackwardShape& shape);

// Row blocks that each keep partial sums, as a function of the number of rows: enough to fill the machine, few enough
// for a cheap reduction.
std::function<int64_t(int64_t)> norm_partials(const Machine& machine, int64_t tile_rows, int per_processor);

// The operation of `launches` and a last one that adds up the scratch buffers of partial sums named here.
Operation with_partials(std::vector<Launch> launches, Launch reduce, const std::vector<std::string>& names,
                        std::function<int64_t(int64_t)> partials, int64_t cols);

// The two kernels of rows that do not fit, in order. `record` records a kernel for a meta struct.
template <class Meta>
struct WideNormBackward {
  Meta meta;
  std::function<program::Program(const Meta&)> record_d_x, record_d_weight;

  std::vector<Launch> launches(const std::function<int64_t(int64_t)>& partials) const {
    Meta rows = meta, columns = meta;
    rows.looped = columns.looped = true;
    rows.block = kRowBlock;
    Launch d_x{.program = record_d_x(rows), .num_warps = warps_for(kRowBlock, meta.type, 2, 16)};
    d_x.grid = [](int64_t n) { return grid_of(n); };
    if (!meta.want_d_weight) return {std::move(d_x)};

    columns.block = kColumns;
    columns.rows = kRows;
    Launch d_weight{.program = record_d_weight(columns), .num_warps = warps_for(kRows * kColumns, meta.type, 2, 8)};
    d_weight.grid = [partials, blocks = ceil_div(meta.cols, kColumns)](int64_t n) {
      return grid_of(partials(n) * blocks);
    };
    // d_weight reads d_y, which d_x may overwrite: it goes first.
    return {std::move(d_weight), std::move(d_x)};
  }

  // At least 16 tiles of rows for each partial sum.
  static std::function<int64_t(int64_t)> partials(const Machine& machine, int per_processor) {
    return norm_partials(machine, 16 * kRows, per_processor);
  }

  static constexpr int64_t kColumns = 1024, kRows = 4;  // of a tile of d_weight
};

}  // namespace ligerdsl::kernels
