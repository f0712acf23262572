// Sums of columns over all rows: the gradient of a bias.
#pragma once

#include "kernels/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct ColumnSumsOptions {
  int64_t cols = 4096;      // row width F
  DType type = f32;         // of the rows
  DType out_type = f32;     // of the sums
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
  bool lanes = true;     // each row of a tile has sums of its own
  bool partial = true;   // the sums are partial ones, of several programs for each column
};

// Arguments: partials [parts, F] f32, or d_bias [F] out_type where a program sums all rows, and d_y [n, F] type. Partial
// sum p is that of the tiles of rows p, p + parts, ...
void column_sums(KernelBuilder& k, const ColumnSumsMeta& m);

// Rows: rows of d_y. d_bias [F] out_type is an argument of the last launch, on a CPU of the first one too, which alone runs
// where there are few rows; the scratch, where there is any, "partials".
Operation bias_add_backward(const Machine& machine, const ColumnSumsOptions& options);

}  // namespace ligerdsl::kernels
