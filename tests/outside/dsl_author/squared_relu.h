// y = max(x, 0)^2 * scale, in any float type.
#pragma once

#include <ligerdsl/dsl.h>

struct SquaredReluMeta {
  ligerdsl::DType type = ligerdsl::f32;
  int64_t block = 1024;  // elements per program
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block);
  }
};

extern const ligerdsl::Kernel<SquaredReluMeta> squared_relu_kernel;
