// s_j = sum over rows of dy_ij, in f32 and in a fixed order: a program goes down a block of columns through its part of
// the rows; reduce_partials adds up what each has summed.
//
// Bytes, s = sizeof(type): n F s read, and the partial sums written and read, 4 F bytes a part.
#include "kernels/column_sums.h"

namespace ligerdsl::kernels {

// With lanes, lane r of a tile's rows adds rows r, r + rows, ... of its part in order, and the lanes are added last; else
// each tile's rows are added first.
void column_sums(KernelBuilder& k, const ColumnSumsMeta& m) {
  View partials = k.view("partials", f32, {dyn, m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});

  Scalar blocks = cdiv(d_y.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  auto tiles = d_y.partition({m.rows, m.block});
  const auto added = [&](const Tile& zeros, const auto& of_tile) {
    auto [sums] = k.for_range(part, cdiv(d_y.dim(0), m.rows), partials.dim(0), pipelined(m.stages), carry(zeros),
                              [&](Scalar row, Tile acc) {
                                return carry(acc + of_tile(tiles.load({row, column}).to(f32)));
                              });
    return sums;
  };
  const Tile sums = m.lanes ? sum(added(k.zeros({m.rows, m.block}, f32), [](const Tile& t) { return t; }), 0)
                            : added(k.zeros({m.block}, f32), [](const Tile& t) { return sum(t, 0); });
  partials.partition({squeeze, m.block}).store({part, column}, sums);
}

}  // namespace ligerdsl::kernels
