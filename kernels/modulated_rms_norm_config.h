// The schedules of the modulated RMSNorm.
#pragma once

#include "kernels/config.h"
#include "kernels/modulated_rms_norm.h"
#include "kernels/norm_backward.h"
#include "kernels/rms_norm_config.h"

namespace ligerdsl::kernels {

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
