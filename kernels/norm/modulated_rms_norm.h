// RMSNorm with a scale and a shift of each of several stretches of rows (AdaLN): those of one image or prompt.
#pragma once

#include "kernels/core/config.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/norm/rms_norm.h"

namespace ligerdsl::kernels {

// n rows in as many stretches of neighbours as there are modulations. Without a weight its factor is 1.
struct ModulatedRmsNormOptions : RmsNormOptions {
  int64_t modulations = 1;  // backward: rows of scale, which divide those of x

  bool want_d_scale = true, want_d_shift = true;  // backward
  DType d_scale_type = f32;                       // of both: f32 or scale_type

  ModulatedRmsNormOptions() { modulated = true; }
  bool want_modulation() const { return want_d_scale || want_d_shift; }
  // Sums of dy n, from which the gradients of weight and scale are made.
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
  int64_t block = 4096;  // columns of a tile: the whole row, or without d_x some
  int stages = 1;        // loads in flight: 2 reads the next row while this one is worked on
  int64_t turn = 1;      // rows that a program takes at a time
  bool shared = true;    // several programs share a modulation, else each takes one after the other
};

// Arguments: d_x, [weight_partials], [scale_partials], [shift_partials], d_y, x, [weight], scale, rstd, [offset].
//   d_x, d_y, x [n, H] type; scale [K, H] scale_type, K = modulations; rstd [n] f32; offset f32 scalar.
// d_x may be exactly d_y. weight_partials [programs, H], scale_partials and shift_partials [K, parts, H] f32: what the rows
// of each program add to d_weight, and those of each modulation to d_scale but for the weight, and to d_shift: what d_weight
// is the sum of, too, after each has been multiplied by 1 + scale.
void modulated_rms_norm_backward(KernelBuilder& k, const ModulatedRmsNormMeta& m);

// Rows: rows of x. The gradients of parameters are arguments of the last launch; the backward's scratch are the partials.
Operation modulated_rms_norm_forward(const Machine& machine, const ModulatedRmsNormOptions& options);
Operation modulated_rms_norm_backward(const Machine& machine, const ModulatedRmsNormOptions& options);

// As RMSNorm's, but a tile has one row: its neighbours may have another modulation.
using ModulatedRmsNormForward = ConfiguredKernel<ModulatedRmsNormOptions, RmsNormForwardConfig>;
extern const ModulatedRmsNormForward modulated_rms_norm_forward_kernel;

// A program has whole rows, one after the other, or blocks of columns: then another kernel makes d_x.
struct ModulatedRmsNormBackwardConfig {
  BackwardBy by = BackwardBy::rows;
  int num_warps = 16;
  int vectors = 0;          // by=columns: of 16 bytes that a thread has of a block
  int num_ctas = 1;         // that share the rows
  int stages = 2;           // rows under way: the one at work and those on their way
  int turn = 1;             // rows that a program takes at a time
  int programs_per_sm = 1;  // that each keep partial sums
  bool padded = false;      // by=rows: a tile of 2^n columns, of which threads have whole vectors
  int min_ctas_per_sm = 0;  // by=rows; 0: no floor

  template <class V>
  void visit(V&& v) {
    v("by", by, {"rows", "columns"}, Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 4}), Bits::batch);
    v("num_ctas", num_ctas, powers_of_two(1, 16), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("turn", turn, choices({1, 2, 4}), Bits::same);
    v("programs_per_sm", programs_per_sm, choices({1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("padded", padded, Bits::batch);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::same);
  }
};

using ModulatedRmsNormBackward = ConfiguredKernel<ModulatedRmsNormOptions, ModulatedRmsNormBackwardConfig>;
extern const ModulatedRmsNormBackward modulated_rms_norm_backward_kernel;

}  // namespace ligerdsl::kernels
