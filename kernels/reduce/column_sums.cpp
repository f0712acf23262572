// s_j = sum over rows of dy_ij, in f32 and in a fixed order. A program has a block of columns and
// loops over its part of the rows. If several programs have the same columns, reduce_partials adds
// their partial sums.
//
// Bytes moved, with s = sizeof(type): n F s, and 8 F per part to write and read the partial sums.
#include "kernels/reduce/column_sums.h"

namespace ligerdsl::kernels {

// The order of the additions is fixed. If m.lanes is set, row r of the accumulator adds row r of
// each tile, and the accumulator's rows are summed at the end. Otherwise the rows of each tile are
// summed first, and the last rows, which do not fill a tile, are added one by one at the end.
void column_sums(KernelBuilder& k, const ColumnSumsMeta& m) {
  View out =
      m.partial ? k.view("partials", f32, {dyn, m.cols}) : k.view("d_bias", m.out_type, {m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});

  Scalar blocks = cdiv(d_y.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  Scalar parts = m.partial ? out.dim(0) : k.constant(1, i64);
  auto tiles = d_y.partition({m.rows, m.block});
  const auto added = [&](const Scalar& end, const Tile& zeros, const auto& of_tile) {
    auto [sums] =
        k.for_range(part, end, parts, pipelined(m.stages), carry(zeros), [&](Scalar row, Tile acc) {
          return carry(acc + of_tile(tiles.load({row, column}).to(f32)));
        });
    return sums;
  };
  Tile sums;
  if (m.lanes) {
    Scalar end = cdiv(d_y.dim(0), m.rows);
    sums = sum(added(end, k.zeros({m.rows, m.block}, f32), [](const Tile& t) { return t; }), 0);
  } else {
    Scalar whole = d_y.dim(0) / m.rows;
    Tile of_tiles = added(whole, k.zeros({m.block}, f32), [](const Tile& t) { return sum(t, 0); });
    Scalar end = where(whole % parts == part.to(i64), d_y.dim(0), 0);
    auto rows = d_y.partition({squeeze, m.block});
    auto [all] = k.for_range(whole * m.rows, end, 1, carry(of_tiles), [&](Scalar row, Tile acc) {
      return carry(acc + rows.load({row, column}).to(f32));
    });
    sums = all;
  }
  if (m.partial) return out.partition({squeeze, m.block}).store({part, column}, sums);
  auto target = out.partition({m.block});
  if (m.accumulate) sums = sums + target.load({column});
  target.store({column}, sums.to(m.out_type));
}

}  // namespace ligerdsl::kernels
