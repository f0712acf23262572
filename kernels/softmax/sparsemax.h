// Sparsemax over rows: the nearest point of the simplex, in which most elements are exactly 0.
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
  int64_t block = 1024;  // columns of a tile: the whole row unless `looped`
  int64_t pieces = 1;    // forward, more than one row: tiles side by side that hold the rows' columns
  bool looped = false;   // wider rows: a program makes several passes over blocks of its row
  BlockLanes lanes;      // rows of 1: how a block is dealt
  // Forward: divide exactly. An approximate division has a tenth of the instructions and no branch, around which ptxas keeps
  // more registers alive.
  bool exact_division = false;
};

// Arguments: y, x [n, cols] type. y may be exactly x.
void sparsemax_forward(KernelBuilder& k, const SparsemaxMeta& m);

// Arguments: d_x, d_y, y [n, cols] type. d_x may be exactly d_y or y.
void sparsemax_backward(KernelBuilder& k, const SparsemaxMeta& m);

// Rows: rows of x.
Operation sparsemax_forward(const Machine& machine, const SparsemaxOptions& options);
Operation sparsemax_backward(const Machine& machine, const SparsemaxOptions& options);

// keep=registers: num_ctas of a cluster hold a row together. keep=shared: blocks that are read again for each pass.
using SparsemaxKernel = ConfiguredKernel<SparsemaxOptions, RowConfig>;
extern const SparsemaxKernel sparsemax_forward_kernel, sparsemax_backward_kernel;

}  // namespace ligerdsl::kernels
