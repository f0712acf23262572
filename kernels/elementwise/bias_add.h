// Addition of a bias to rows.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct BiasAddOptions {
  int64_t cols = 4096;    // row width F
  DType type = f32;       // dtype of x and y
  DType bias_type = f32;  // dtype of bias

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("bias_type", bias_type);
  }
};

struct BiasAddMeta : BiasAddOptions {
  int64_t rows = 1;
  int64_t block = 1024;  // columns of a tile
};

// Arguments: y, x [n, F] type; bias [F] bias_type. y may be exactly x.
void bias_add_forward(KernelBuilder& k, const BiasAddMeta& m);

// Rows: rows of x.
Operation bias_add_forward(const Machine& machine, const BiasAddOptions& options);

using BiasAddForward = ConfiguredKernel<BiasAddOptions, ElementwiseConfig>;
extern const BiasAddForward bias_add_forward_kernel;

}  // namespace ligerdsl::kernels
