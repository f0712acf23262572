// Dropout without a stored mask: y is x / (1 - p) or 0. A random word per element decides.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct DropoutOptions {
  int64_t cols = 4096;  // row width F
  DType type = f32;
  bool add = false;          // forward: residual + ...; backward: d_x += ...
  bool device_seed = false;  // seed and a part of the offset are device scalars, so that a captured
                             // graph can be replayed

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("add", add);
    v("device_seed", device_seed);
  }
};

struct DropoutMeta : DropoutOptions {
  int64_t rows = 1;
  int64_t block = 1024;  // columns of a tile, a multiple of 4
};

// Arguments: y, x, [residual] [n, F] type, and the shared arguments. y may be exactly x or
// residual.
//
// The shared arguments of both kernels:
//   threshold i32 with the bits of floor(p 2^32); scale f32 = 1 / (1 - p); offset i64;
//   seed i64, or with `device_seed`: device_seed, device_offset [1] i64.
// The host computes threshold and scale in double. device_offset is added to offset.
void dropout_forward(KernelBuilder& k, const DropoutMeta& m);

// Arguments: d_x, d_y [n, F] type, and the shared arguments. d_x may be exactly d_y, unless `add`
// is set.
void dropout_backward(KernelBuilder& k, const DropoutMeta& m);

// Rows: rows of x.
Operation dropout_forward(const Machine& machine, const DropoutOptions& options);
Operation dropout_backward(const Machine& machine, const DropoutOptions& options);

using DropoutKernel = ConfiguredKernel<DropoutOptions, ElementwiseConfig>;
extern const DropoutKernel dropout_forward_kernel, dropout_backward_kernel;

}  // namespace ligerdsl::kernels
