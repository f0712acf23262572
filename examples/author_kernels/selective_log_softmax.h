// Log-probability of one chosen column of each row of logits, as policy-gradient losses need it
// (Schulman et al., "Proximal policy optimization algorithms", 2017, equation 7). The full
// log-softmax is never stored.
//
//   out[row] = x[row, index[row]] - log sum_j e^x[row, j]
//
// x [n, cols]; index [n] i64; out [n] f32. Rows may have any width and are read once: n cols
// sizeof(type) bytes. A row whose index is not a column of x gets -infinity.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct SelectiveLogSoftmaxMeta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t block = 4096;  // columns per iteration
  int64_t vectors = 4;   // 16-byte vectors per thread and block
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("block", block, powers_of_two(512, 16384), Bits::row);
    v("vectors", vectors, choices({1, 2, 4, 8}), Bits::row);
  }
  int num_warps() const { return warps_for(block, type, vectors); }
};

inline void selective_log_softmax(KernelBuilder& k, const SelectiveLogSoftmaxMeta& m) {
  View out = k.view("out", f32, {dyn});
  View x = k.view("x", m.type, {dyn, m.cols});
  View index = k.view("index", i64, {dyn});

  Scalar row = k.program_id(0);
  Scalar chosen =
      x.load({row, index.load({row})}, {.pad = -INFINITY}).to(f32);  // overlaps with the loop below
  // Each thread carries its own maximum and sum, so threads synchronise only once, after the loop.
  const bool aligned = m.cols % vector_width(m.type) == 0;
  const BlockLanes lanes =
      block_lanes(k.target(), m.type, m.block, m.num_warps(), /*num_ctas=*/1, aligned);
  auto [top, total] = k.for_range(
      0, ceil_div(m.cols, m.block), 1,
      carry(k.full(lanes.carried(), -INFINITY, f32), k.zeros(lanes.carried(), f32)),
      [&](Scalar b, Tile top, Tile total) {
        Tile v = x.partition({squeeze, m.block}).load({row, b}, {.pad = -INFINITY}).to(f32);
        OnlineSums next = accumulate({top, total}, lanes, v);
        return carry(next.m, next.s);
      });
  out.store({row}, chosen - log_sum_exp(combine(OnlineSums{top, total})));
}

inline const Kernel<SelectiveLogSoftmaxMeta> selective_log_softmax_kernel{
    .name = "selective_log_softmax",
    .description = "log-softmax of one column of each row",
    .build = selective_log_softmax,
    .launch = [](const SelectiveLogSoftmaxMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)}, .num_warps = m.num_warps(), .no_alias = true};
    }};

}  // namespace author_kernels
