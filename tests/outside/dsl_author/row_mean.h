// The mean of each row, with a schedule that depends on the device.
#pragma once

#include <ligerdsl/dsl.h>

struct RowMeanMeta {
  ligerdsl::DType type = ligerdsl::f32;
  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

extern const ligerdsl::Kernel<RowMeanMeta> row_mean_kernel;
