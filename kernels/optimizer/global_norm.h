// Norm of a list of tensors, and the factor that clips it.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct SquaresOptions {
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

struct SquaresMeta : SquaresOptions {
  int64_t block = 4096;      // elements per tile
  int64_t per_program = 16;  // tiles per program
};

// Partial sums of squares of one tensor. Arguments: partials [programs, 2] f32, x [n] type.
// partials[i] is a scaled sum s and an exponent e: the sum of squares is s * 2^(2 e).
void sum_of_squares(KernelBuilder& k, const SquaresMeta& m);

struct NormOptions {
  bool counts_steps = false;    // count finite norms in the argument `steps`
  bool counts_skipped = false;  // count other norms in the argument `skipped`

  template <class V>
  void visit(V&& v) {
    v("counts_steps", counts_steps);
    v("counts_skipped", counts_skipped);
  }
};

struct NormMeta : NormOptions {
  int64_t block = 1024;
};

// Arguments: norm [1] f32, factor [1] f32, nonfinite [1] i32 (1 if the norm is NaN or infinite,
// else 0), [steps [1] i64], [skipped [1] i64], partials [p, 2] f32, max_norm f32. A finite norm
// adds 1 to steps; any other norm adds 1 to skipped.
void finish_norm(KernelBuilder& k, const NormMeta& m);

// First stage, one launch per tensor. `partials` is the tensor's slice, with
// sum_of_squares_programs() rows, of one buffer for all tensors. Rows: elements of the tensor.
Operation sum_of_squares(const Machine& machine, const SquaresOptions& options);
Size sum_of_squares_programs();

// Second stage, one launch for the whole buffer: norm = sqrt(sum of squares),
// factor = min(1, max_norm / (norm + 1e-6)).
Operation finish_norm(const Machine& machine, const NormOptions& options = {});

extern const FixedKernel<SquaresOptions> sum_of_squares_kernel;
extern const FixedKernel<NormOptions> finish_norm_kernel;

}  // namespace ligerdsl::kernels
