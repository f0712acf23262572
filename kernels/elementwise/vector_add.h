// out = a + b, element by element.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct VectorAddMeta {
  DType type = f32;
  int64_t block = 1024;  // elements per program
};

// Arguments: out, a, b [n] of `type`. out may be a or b.
void vector_add(KernelBuilder& k, const VectorAddMeta& m);

// Rows: elements.
Operation vector_add(const Machine& machine, DType type);

struct VectorAddOptions {
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

using VectorAdd = ConfiguredKernel<VectorAddOptions, ElementwiseConfig>;
extern const VectorAdd vector_add_kernel;

}  // namespace ligerdsl::kernels
