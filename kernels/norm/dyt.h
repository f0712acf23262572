// DyT: dynamic tanh, an elementwise replacement for a norm.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "kernels/reduce/column_sums.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct DytOptions {
  int64_t cols = 4096;      // row width H
  DType type = f32;         // dtype of x, y and their gradients
  DType weight_type = f32;  // dtype of alpha, weight and bias

  bool without_bias = false;  // forward

  bool want_d_alpha = true, want_d_weight = true, want_d_bias = true;  // backward
  DType d_weight_type = f32;  // dtype of d_alpha, d_weight and d_bias: f32 or weight_type
  bool accumulate = false;    // d_alpha += ..., d_weight += ..., d_bias += ...; f32 only
  bool without_d_x = false;   // compute only the parameter gradients

  int sums() const { return int{want_d_alpha} + int{want_d_weight} + int{want_d_bias}; }

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("weight_type", weight_type);
    v("without_bias", without_bias);
    v("want_d_alpha", want_d_alpha);
    v("want_d_weight", want_d_weight);
    v("want_d_bias", want_d_bias);
    v("d_weight_type", d_weight_type);
    v("accumulate", accumulate);
    v("without_d_x", without_d_x);
  }
};

struct DytMeta : DytOptions {
  int64_t rows = 1;
  int64_t block = 1024;  // columns of a tile
  int stages = 1;        // backward: pipeline stages of the loop over tiles
  bool lanes = true;     // backward: each row of a tile has its own partial sums
};

// Arguments: y, x [n, H] type; alpha [1], weight [H], [bias] [H] weight_type. y may be exactly x.
void dyt_forward(KernelBuilder& k, const DytMeta& m);

// Arguments: [d_x], [alpha_partials], [weight_partials], [bias_partials], d_y, x, alpha, weight.
// d_x may be exactly d_y. A program has one block of columns and loops over its part of the rows.
// weight_partials and bias_partials are [parts, H] f32, alpha_partials [programs, 1] f32.
void dyt_backward(KernelBuilder& k, const DytMeta& m);

// Rows: rows of x. The backward has the partials as scratch. The parameter gradients are arguments
// of its last launch.
Operation dyt_forward(const Machine& machine, const DytOptions& options);
Operation dyt_backward(const Machine& machine, const DytOptions& options);

using DytBackward = ConfiguredKernel<DytOptions, ColumnSumsConfig>;
extern const DytBackward dyt_backward_kernel;

using DytForward = ConfiguredKernel<DytOptions, ElementwiseConfig>;
extern const DytForward dyt_forward_kernel;

}  // namespace ligerdsl::kernels
