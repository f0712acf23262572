// Multiplication of rows by a factor that is read on the device.
#pragma once

#include <cstdint>

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct ScaleRowsOptions {
  DType type = f32, factor_type = f32;
  bool per_row = false;
  int64_t cols = 4096;

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("factor_type", factor_type);
    v("per_row", per_row);
    v("cols", cols);
  }
};

struct ScaleRowsMeta : ScaleRowsOptions {
  int64_t rows = 1;
  int64_t block = 1024;
};

// Computes out = in times a factor read on the device. Arguments: out, in [n, V] type; factor [1],
// or [n] if per_row. out may be exactly in.
void scale_rows(KernelBuilder& k, const ScaleRowsMeta& m);

// Rows: rows of in.
Operation scale_rows(const Machine& machine, const ScaleRowsOptions& options);

using ScaleRows = ConfiguredKernel<ScaleRowsOptions, ElementwiseConfig>;
extern const ScaleRows scale_rows_kernel;

}  // namespace ligerdsl::kernels
