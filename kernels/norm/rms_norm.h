// RMSNorm, and RMSNorm of the sum of x and a residual.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/norm/norm_backward.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Rounding: llama rounds x * rstd to the dtype before it multiplies by the weight; gemma and none
// round only the result.
enum class Casting { llama, gemma, none };

struct RmsNormOptions {
  int64_t cols = 4096;  // row width H
  DType type = f32;     // dtype of x, y and their gradients
  Casting casting = Casting::llama;
  bool has_weight = true;
  DType weight_type = f32;
  bool has_offset = true;  // false: offset is 0
  bool residual = false;   // normalise sum = round(x + residual) instead of x

  // Apply y (1 + scale) + shift before y is rounded (modulated_rms_norm.h).
  bool modulated = false;
  DType scale_type = f32;  // dtype of scale and shift
  bool has_shift = true;

  bool with_rstd = true;  // forward: write rstd

  bool want_d_weight = true;  // backward
  DType d_weight_type = f32;  // f32 or weight_type
  bool accumulate = false;    // d_weight += ...; f32 only
  bool with_d_sum = false;   // backward with residual: add d_sum, the gradient of other uses of sum
  bool without_d_x = false;  // backward: compute only d_weight

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("casting", casting, {"llama", "gemma", "none"});
    v("has_weight", has_weight);
    v("weight_type", weight_type);
    v("has_offset", has_offset);
    v("with_rstd", with_rstd);
    v("want_d_weight", want_d_weight);
    v("d_weight_type", d_weight_type);
    v("accumulate", accumulate);
    v("with_d_sum", with_d_sum);
    v("without_d_x", without_d_x);
  }
};

struct RmsNormMeta : RmsNormOptions {
  int64_t rows = 1;      // rows of a tile
  int64_t block = 4096;  // columns of a tile: the whole row unless `looped`
  bool looped = false;   // wider rows: a program makes two passes over blocks of its row
  // Forward: load the weight before the reduction, which hides the latency but takes registers.
  bool early_weight = false;
  // True if tiles begin at 16-byte boundaries (View::alignment_offset). Such a tile has one row
  // and, unless `looped`, at least columns_with_offset() columns.
  bool aligned_blocks = false;
  // Backward, loops over rows:
  // Divisor of the number of programs, so that all rows of a program have one alignment offset.
  int64_t row_period = 1;
  int stages = 1;              // pipeline stages; 2 loads the next rows during this iteration
  bool reload_weight = false;  // load the weight again for every row, to save registers
};

// Arguments: y, [sum], x, [residual], [weight], [scale], [shift], [rstd], eps, [offset],
// [rows_of_modulation].
//   y, sum, x, residual [n, H] type; weight [H] weight_type; rstd [n] f32; eps, offset f32 scalars.
//   scale, shift [n / rows_of_modulation, H] scale_type; rows_of_modulation i64 scalar; only if
//   modulated.
// sum may be exactly x or residual. offset exists only with has_weight and has_offset.
void rms_norm_forward(KernelBuilder& k, const RmsNormMeta& m);

// Arguments: d_x, [partials], d_y, x (or sum, if residual), [d_sum], [weight], [scale], rstd,
// [offset], [rows_of_modulation]. `modulated` requires `looped`; it adds scale and
// rows_of_modulation. d_x may be exactly d_y or d_sum. partials [programs, H] f32 are each
// program's partial sum of d_weight.
void rms_norm_backward(KernelBuilder& k, const RmsNormMeta& m);

// Computes the partials of d_weight if rows are too wide for rms_norm_backward to hold, or if d_x
// is not wanted. Arguments: partials, d_y, x (or sum), rstd.
void rms_norm_d_weight(KernelBuilder& k, const RmsNormMeta& m);

// Rows: rows of x. The backward has the scratch "partials", and d_weight [H] is an argument of its
// last launch.
Operation rms_norm_forward(const Machine& machine, const RmsNormOptions& options);
Operation rms_norm_backward(const Machine& machine, const RmsNormOptions& options);

struct RmsNormForwardConfig : RowConfig {
  // Load the weight before the reduction, which hides the latency but takes registers.
  bool early_weight = false;

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("early_weight", early_weight, Bits::same);
  }
};

using RmsNormForward = ConfiguredKernel<RmsNormOptions, RmsNormForwardConfig>;
extern const RmsNormForward rms_norm_forward_kernel;
extern const RmsNormForward fused_add_rms_norm_forward_kernel;  // normalises sum = x + residual

using RmsNormBackward = ConfiguredKernel<RmsNormOptions, NormBackwardConfig>;
extern const RmsNormBackward rms_norm_backward_kernel, fused_add_rms_norm_backward_kernel;

}  // namespace ligerdsl::kernels
