// RMSNorm with a scale and a shift of each of several stretches of rows (AdaLN): those of one image or prompt.
#pragma once

#include "kernels/rms_norm.h"

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

}  // namespace ligerdsl::kernels
