// Column sums over all rows: the gradient of a bias.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

struct ColumnSumsOptions {
  int64_t cols = 4096;      // row width F
  DType type = f32;         // dtype of the rows
  DType out_type = f32;     // dtype of the column sums
  bool accumulate = false;  // d_bias += ...; f32 only

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("out_type", out_type);
    v("accumulate", accumulate);
  }
};

struct ColumnSumsMeta : ColumnSumsOptions {
  int64_t rows = 4;
  int64_t block = 1024;  // columns of a tile
  int stages = 1;        // tiles in flight
  bool lanes = true;     // each row of a tile has its own partial sums
  bool partial = true;   // write partial sums, because each column has several programs
};

// Arguments: partials [parts, F] f32, or d_bias [F] out_type if one program reduces all rows of a
// column, and d_y [n, F] type. Partial sum p is the sum of row tiles p, p + parts, ...
void column_sums(KernelBuilder& k, const ColumnSumsMeta& m);

// Rows: rows of d_y. d_bias [F] out_type is an argument of the last launch. On a CPU it is also an
// argument of the first launch, the only one that runs if there are few rows. The scratch, if any,
// is "partials".
Operation bias_add_backward(const Machine& machine, const ColumnSumsOptions& options);

struct ColumnSumsConfig {
  int rows = 32;  // rows per tile
  int num_warps = 8;
  int vectors = 4;          // 16-byte vectors per thread and tile
  int stages = 2;           // tiles in use or in flight
  int programs_per_sm = 4;  // programs per SM, for all blocks of columns together

  int64_t columns(DType type) const {
    return int64_t{program::kWarpThreads} * num_warps * vector_width(type) * vectors / rows;
  }

  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 8192), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({1, 2, 4, 8}), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("programs_per_sm", programs_per_sm, choices({1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
  }
};

// Arrays that a kernel with column sums reads, and results that it computes per column.
struct ColumnSumsWork {
  int arrays = 1, sums = 1;
};
ColumnSumsConfig column_sums_config(const Machine& machine, DType type, int64_t cols,
                                    ColumnSumsWork work = {});
// Returns the reason why a kernel with `sums` results per column cannot have this tile; empty if it
// can.
std::string refused_column_tile(const Machine& machine, DType type, int64_t cols, int64_t tile_rows,
                                int64_t tile_cols, int sums = 1);

using BiasAddBackward = ConfiguredKernel<ColumnSumsOptions, ColumnSumsConfig>;
extern const BiasAddBackward bias_add_backward_kernel;

}  // namespace ligerdsl::kernels
