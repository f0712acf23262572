// PolyNorm: bias plus a weighted sum of x, x^2 and x^3, each divided by its root mean square.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct PolyNormOptions {
  int64_t cols = 4096;      // row width H
  DType type = f32;         // dtype of x, y and their gradients
  DType weight_type = f32;  // dtype of weight and bias

  bool with_rstd = true;  // forward: write rstd

  bool want_d_weight = true, want_d_bias = true;  // backward
  DType d_weight_type = f32;                      // dtype of both: f32 or weight_type
  bool accumulate = false;                        // d_weight += ..., d_bias += ...; f32 only

  bool want_sums() const { return want_d_weight || want_d_bias; }

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("weight_type", weight_type);
    v("with_rstd", with_rstd);
    v("want_d_weight", want_d_weight);
    v("want_d_bias", want_d_bias);
    v("d_weight_type", d_weight_type);
    v("accumulate", accumulate);
  }
};

struct PolyNormMeta : PolyNormOptions {
  int64_t rows = 1;      // rows of a tile
  int64_t block = 4096;  // columns of a tile: the whole row unless `looped`
  bool looped = false;   // wider rows: a program makes two passes over blocks of its row
};

// Arguments: y, x [n, H] type; weight [3], bias [1] weight_type; [rstd] [n, 3] f32; eps f32 scalar.
// Column p of rstd and element p of weight belong to x^(3 - p).
void poly_norm_forward(KernelBuilder& k, const PolyNormMeta& m);

// Arguments: d_x, [partials], d_y, x, weight, rstd. d_x may be exactly d_y. partials [programs, 4]
// f32 are each program's partial sums of d_weight and d_bias.
void poly_norm_backward(KernelBuilder& k, const PolyNormMeta& m);

// One program reduces the partials. Arguments: partials, [d_weight] [3], [d_bias] [1]
// d_weight_type. m.rows: partials per tile.
void poly_norm_reduce(KernelBuilder& k, const PolyNormMeta& m);

// Rows: rows of x. The backward has the scratch "partials", and d_weight and d_bias are arguments
// of its last launch.
Operation poly_norm_forward(const Machine& machine, const PolyNormOptions& options);
Operation poly_norm_backward(const Machine& machine, const PolyNormOptions& options);

// RowConfig with Bits::batch, because the rows of a tile determine the order in which parameter
// gradients are summed.
struct PolyNormBackwardConfig : RowConfig {
  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v, Bits::batch);
  }
};

using PolyNormForward = ConfiguredKernel<PolyNormOptions, RowConfig>;
extern const PolyNormForward poly_norm_forward_kernel;
using PolyNormBackward = ConfiguredKernel<PolyNormOptions, PolyNormBackwardConfig>;
extern const PolyNormBackward poly_norm_backward_kernel;

}  // namespace ligerdsl::kernels
