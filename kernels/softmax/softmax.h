// Softmax over rows, with a scale and an optional causal mask.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct SoftmaxOptions {
  int64_t cols = 4096;  // row width
  DType type = f32;
  bool causal = false;  // causal mask: query i includes the columns j <= i + cols - queries

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("causal", causal);
  }
};

struct SoftmaxMeta : SoftmaxOptions {
  int64_t rows = 1;      // rows of a tile
  int64_t block = 1024;  // columns of a tile; it holds a whole row unless `looped`
  bool looped = false;   // rows wider than a tile: a program reads its row twice, in blocks
  BlockLanes lanes;      // with `looped`: distribution of a block over lanes
};

// Arguments: y, x [n, cols] type; scale f32; causal: queries i32 (row r is query r % queries). y
// may be exactly x.
void softmax_forward(KernelBuilder& k, const SoftmaxMeta& m);

// Arguments: d_x, d_y, y [n, cols] type; scale f32; causal: queries i32. d_x may be exactly d_y or
// y.
void softmax_backward(KernelBuilder& k, const SoftmaxMeta& m);

// Rows: rows of x.
Operation softmax_forward(const Machine& machine, const SoftmaxOptions& options);
Operation softmax_backward(const Machine& machine, const SoftmaxOptions& options);

using SoftmaxKernel = ConfiguredKernel<SoftmaxOptions, RowConfig>;
extern const SoftmaxKernel softmax_forward_kernel, softmax_backward_kernel;

}  // namespace ligerdsl::kernels
