// Symmetric quantisation of rows to int8, with one scale per row: Dettmers et al., "LLM.int8()",
// NeurIPS 2022, section 2.1 (row-wise absmax):
//
//   scale[row] = max_j |x_j| / 127;  q_j = round(x_j / scale), ties to even, saturated
//
// x [n, cols]; q [n, cols] i8; scale [n] f32. A row of zeros gives q = 0 and scale = 1e-30 / 127.
// Rows may have any width. Rows are read twice; the second read comes from shared memory if the row
// fits there. Memory traffic: n cols (sizeof(type) + 1) bytes.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct QuantizeInt8Meta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t block = 2048;  // columns per iteration
  int64_t vectors = 2;   // 16-byte vectors per thread and block
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("block", block, powers_of_two(256, 16384), Bits::same);
    v("vectors", vectors, choices({1, 2, 4}), Bits::same);
  }
};

inline void quantize_int8(KernelBuilder& k, const QuantizeInt8Meta& m) {
  View q = k.view("q", i8, {dyn, m.cols});
  View scale = k.view("scale", f32, {dyn});
  View x = k.view("x", m.type, {dyn, m.cols});

  Scalar row = k.program_id(0);
  assume(row < x.dim(0));
  Resident kept = x.partition({squeeze, m.block}).resident({row});
  auto [largest] = k.for_range(
      0, kept.blocks(), 1, carry(k.zeros({m.block}, f32)),
      [&](Scalar b, Tile largest) { return carry(max(largest, abs(kept.load(b).to(f32)))); });
  Scalar absmax = max(max(largest), 1e-30f);  // keeps 127 / absmax finite
  scale.store({row}, absmax * (1.0f / 127.0f));
  Scalar steps = 127.0f / absmax;
  k.for_range(0, kept.blocks(), 1, [&](Scalar i) {
    Scalar b = kept.blocks() - 1 - i;
    q.partition({squeeze, m.block}).store({row, b}, round(kept.load(b).to(f32) * steps).to(i8));
  });
}

inline const Kernel<QuantizeInt8Meta> quantize_int8_kernel{
    .name = "quantize_int8",
    .description = "quantises rows to int8, with one scale per row",
    .build = quantize_int8,
    .launch = [](const QuantizeInt8Meta& m, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)},
                    .num_warps = warps_for(m.block, m.type, m.vectors),
                    .no_alias = true};
    }};

}  // namespace author_kernels
