// RMSNorm with a scale and a shift per segment of rows (AdaLN). A segment is an image or a prompt.
#pragma once

#include "kernels/core/config.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/norm/rms_norm.h"

namespace ligerdsl::kernels {

// The rows of x are split into equal segments, one per modulation. Without a weight, w' = 1.
struct ModulatedRmsNormOptions : RmsNormOptions {
  int64_t modulations = 1;  // backward: number of rows of scale; divides the number of rows of x

  bool want_d_scale = true, want_d_shift = true;  // backward
  DType d_scale_type = f32;                       // dtype of both: f32 or scale_type

  ModulatedRmsNormOptions() { modulated = true; }
  bool want_modulation() const { return want_d_scale || want_d_shift; }
  // Returns true if the column sums of dy n are needed, for the gradients of weight or scale.
  bool want_products() const { return want_d_weight || want_d_scale; }

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("casting", casting, {"llama", "gemma", "none"});
    v("has_weight", has_weight);
    v("weight_type", weight_type);
    v("has_offset", has_offset);
    v("scale_type", scale_type);
    v("has_shift", has_shift);
    v("modulations", modulations);
    v("with_rstd", with_rstd);
    v("want_d_weight", want_d_weight);
    v("d_weight_type", d_weight_type);
    v("want_d_scale", want_d_scale);
    v("want_d_shift", want_d_shift);
    v("d_scale_type", d_scale_type);
    v("accumulate", accumulate);
    v("without_d_x", without_d_x);
  }
};

struct ModulatedRmsNormMeta : ModulatedRmsNormOptions {
  int64_t block = 4096;            // columns of a tile: the whole row, or a part of it without d_x
  int stages = 1;                  // pipeline stages; 2 loads the next row during this iteration
  int64_t rows_per_iteration = 1;  // rows that an iteration of the loop processes together
  bool shared =
      true;  // programs share a modulation; otherwise each program has one or more modulations
};

// Arguments: [d_x], [weight_partials], [scale_partials], [shift_partials], d_y, x, [weight], scale,
// rstd, [offset].
//   d_x, d_y, x [n, H] type; scale [K, H] scale_type, K = modulations; rstd [n] f32; offset f32
//   scalar.
// d_x may be exactly d_y. weight_partials [programs, H], scale_partials and shift_partials [K,
// parts, H] are f32. They are partial sums of d_weight, of d_scale without the factor weight, and
// of d_shift. d_weight is also the sum of scale_partials, each multiplied by 1 + scale.
void modulated_rms_norm_backward(KernelBuilder& k, const ModulatedRmsNormMeta& m);

// Rows: rows of x. The backward has the partials as scratch. The parameter gradients are arguments
// of its last launch.
Operation modulated_rms_norm_forward(const Machine& machine,
                                     const ModulatedRmsNormOptions& options);
Operation modulated_rms_norm_backward(const Machine& machine,
                                      const ModulatedRmsNormOptions& options);

// Schedule of RMSNorm with one row per tile, because the next row may have another modulation.
using ModulatedRmsNormForward = ConfiguredKernel<ModulatedRmsNormOptions, RmsNormForwardConfig>;
extern const ModulatedRmsNormForward modulated_rms_norm_forward_kernel;

// by=rows: a program loops over whole rows. by=columns: a program has a block of columns, and
// another kernel computes d_x.
struct ModulatedRmsNormBackwardConfig {
  BackwardBy by = BackwardBy::rows;
  int num_warps = 16;
  int vectors = 0;             // by=columns: 16-byte vectors per thread and block
  int num_ctas = 1;            // CTAs per cluster, which share each row
  int stages = 2;              // rows in use or in flight
  int rows_per_iteration = 1;  // rows that an iteration of the loop processes together
  int programs_per_sm = 1;     // programs per SM, each with its own partial sums
  bool padded = false;      // by=rows: pad tiles to 2^n columns, so that threads have whole vectors
  int min_ctas_per_sm = 0;  // by=rows; 0: no minimum

  template <class V>
  void visit(V&& v) {
    v("by", by, {"rows", "columns"}, Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 4}), Bits::batch);
    v("num_ctas", num_ctas, powers_of_two(1, 16), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("rows_per_iteration", rows_per_iteration, choices({1, 2, 4}), Bits::same);
    v("programs_per_sm", programs_per_sm, choices({1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("padded", padded, Bits::batch);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::same);
  }
};

using ModulatedRmsNormBackward =
    ConfiguredKernel<ModulatedRmsNormOptions, ModulatedRmsNormBackwardConfig>;
extern const ModulatedRmsNormBackward modulated_rms_norm_backward_kernel;

}  // namespace ligerdsl::kernels
