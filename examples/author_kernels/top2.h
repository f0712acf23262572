// The two largest elements of each row and their columns, largest first. Of two equal elements, the
// one in the lower column comes first. A router of a mixture of two experts needs this: Lepikhin et
// al., "GShard", ICLR 2021, section 2.2.
//
// x [n, cols], cols >= 2, without NaN; values [n, 2] of x's type; indices [n, 2] i32. Rows may have
// any width and are read once: n cols sizeof(type) bytes. Short rows share a program.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct Top2Meta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t block = 2048;  // columns per iteration
  int64_t rows = 1;      // rows per program; more than one for short rows
  int64_t vectors = 1;   // 16-byte vectors per thread for rows * block elements
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("block", block, powers_of_two(2, 8192), Bits::same);
    v("rows", rows, powers_of_two(1, 256), Bits::same);
    v("vectors", vectors, choices({1, 2, 4}), Bits::same);
  }
};

inline void top2(KernelBuilder& k, const Top2Meta& m) {
  View values = k.view("values", m.type, {dyn, 2});
  View indices = k.view("indices", i32, {dyn, 2});
  View x = k.view("x", m.type, {dyn, m.cols});

  Scalar row = k.program_id(0);
  const Shape tile{m.rows, m.block};
  auto load = [&](const ScalarArg& b) {
    return x.partition(tile).load({row, b}, {.pad = -INFINITY}).to(f32);
  };
  // Each position of the block tile keeps the two largest elements that it saw. Equal later
  // elements do not replace them. They start with an element of block 0, and -infinity at a column
  // of block 1, so that rows of -infinity also give columns.
  Tile column = k.arange(m.block).expand_dims(0).broadcast_to(tile);
  auto [v1, i1, v2, i2] =
      k.for_range(1, ceil_div(m.cols, m.block), 1,
                  carry(load(0), column, k.full(tile, -INFINITY, f32), column + m.block),
                  [&](Scalar b, Tile v1, Tile i1, Tile v2, Tile i2) {
                    Tile v = load(b), i = column + b * m.block, first = v > v1, second = v > v2;
                    return carry(where(first, v, v1), where(first, i, i1),  //
                                 where(first, v1, where(second, v, v2)),
                                 where(first, i1, where(second, i, i2)));
                  });
  auto before = [](Scalar v, Scalar i, Scalar w, Scalar j) { return v > w || (v == w && i < j); };
  auto [w1, j1, w2, j2] = reduce({v1, i1, v2, i2}, 1,
                                 [&](Scalar a1, Scalar p1, Scalar a2, Scalar p2,  //
                                     Scalar b1, Scalar q1, Scalar b2, Scalar q2) {
                                   Scalar a_first = before(a1, p1, b1, q1);
                                   // Candidates for second place: the smaller of a1 and b1, and the
                                   // second element of the larger one's side.
                                   Scalar l = where(a_first, b1, a1), pl = where(a_first, q1, p1);
                                   Scalar s = where(a_first, a2, b2), ps = where(a_first, p2, q2);
                                   Scalar l_second = before(l, pl, s, ps);
                                   return carry(where(a_first, a1, b1), where(a_first, p1, q1),
                                                where(l_second, l, s), where(l_second, pl, ps));
                                 });
  values.partition({m.rows, 2}).store({row, 0}, join(w1, w2).to(m.type));
  indices.partition({m.rows, 2}).store({row, 0}, join(j1, j2));
}

inline const Kernel<Top2Meta> top2_kernel{
    .name = "top2",
    .description = "the two largest elements of each row and their columns",
    .build = top2,
    .launch = [](const Top2Meta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("x", 0), m.rows)},
                    .num_warps = warps_for(m.rows * m.block, m.type, m.vectors),
                    .no_alias = true};
    }};

}  // namespace author_kernels
