// Sparsemax over rows: projection onto the probability simplex, in which most elements are exactly
// 0.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct SparsemaxOptions {
  int64_t cols = 4096;  // row width
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
  }
};

struct SparsemaxMeta : SparsemaxOptions {
  int64_t rows = 1;      // rows of a tile
  int64_t block = 1024;  // columns of a tile; it holds a whole row unless `looped`
  int64_t pieces = 1;    // forward, rows > 1: number of pieces of the tile
  bool looped = false;   // rows wider than a tile: a program reads its row several times, in blocks
  BlockLanes lanes;      // with rows = 1: distribution of a block over lanes
  // Forward: divide exactly. An approximate division has a tenth of the instructions and no branch,
  // but kernels with many elements per thread then spill.
  bool exact_division = false;
};

// Arguments: y, x [n, cols] type. y may be exactly x.
void sparsemax_forward(KernelBuilder& k, const SparsemaxMeta& m);

// Arguments: d_x, d_y, y [n, cols] type. d_x may be exactly d_y or y.
void sparsemax_backward(KernelBuilder& k, const SparsemaxMeta& m);

// Rows: rows of x.
Operation sparsemax_forward(const Machine& machine, const SparsemaxOptions& options);
Operation sparsemax_backward(const Machine& machine, const SparsemaxOptions& options);

// keep=registers: a CTA, or the num_ctas CTAs of a cluster, hold a row. keep=shared: each pass
// reads the blocks of a row again.
using SparsemaxKernel = ConfiguredKernel<SparsemaxOptions, RowConfig>;
extern const SparsemaxKernel sparsemax_forward_kernel, sparsemax_backward_kernel;

}  // namespace ligerdsl::kernels
