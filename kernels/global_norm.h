// Norm of a list of tensors, and the factor that clips it.
#pragma once

#include "kernels/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct SquaresMeta {
  DType type = f32;
  int64_t block = 4096;      // elements of a tile
  int64_t per_program = 16;  // tiles of a program
};

// Partial sums of squares of one tensor. Arguments: partials [programs] f32, x [n] type.
void sum_of_squares(KernelBuilder& k, const SquaresMeta& m);

struct NormMeta {
  int64_t block = 1024;
};

// Arguments: norm [1] f32, factor [1] f32, nonfinite [1] i32 (1 if the norm is NaN or infinite, else 0), partials [p]
// f32, max_norm f32.
void finish_norm(KernelBuilder& k, const NormMeta& m);

// Per tensor: one launch; its "partials" is the tensor's slice, sum_of_squares_programs() long, of one buffer for all
// tensors. Rows: elements of the tensor.
Operation sum_of_squares(const Machine& machine, DType type);
Size sum_of_squares_programs();

// Then once, on the whole buffer. norm = sqrt(sum of partials), factor = min(1, max_norm / (norm + 1e-6)).
Operation finish_norm(const Machine& machine);

}  // namespace ligerdsl::kernels
