// One AdamW step on a tensor.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct AdamwOptions {
  DType type = f32;  // dtype of `parameter`; f32 for master weights
  DType gradient_type = f32;
  bool with_copy = false;  // also write round(parameter) to `copy`
  DType copy_type = bf16;
  bool with_clip = false;  // multiply gradients by the device scalar `clip`
  bool device_step =
      false;  // lr and step are device scalars, so that a captured graph can be replayed
  bool with_skip = false;  // skip this step if the device scalar `skip` is not 0
  DType skip_type = i32;   // i32 for `nonfinite` of global_norm, f32 for torch's `found_inf`

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("gradient_type", gradient_type);
    v("with_copy", with_copy);
    v("copy_type", copy_type);
    v("with_clip", with_clip);
    v("device_step", device_step);
    v("with_skip", with_skip);
    v("skip_type", skip_type);
  }
};

struct AdamwMeta : AdamwOptions {
  int64_t block = 1024;
};

// Arguments: parameter [n] type, m, v [n] f32 (updated), [copy [n] copy_type],
//   gradient [n] gradient_type, [clip [1] f32], [skip [1] skip_type],
//   with device_step: lr [1] f32, step [1] i64, error [1] i64,
//   otherwise: lr, bias1, bias2 f32; the host computes bias1 = 1 / (1 - beta1^t) and
//   bias2 = 1 / sqrt(1 - beta2^t) in double,
//   beta1, beta2, eps, weight_decay f32.
//
// If skip is not 0 (or is NaN), nothing is written. If the step is not skipped and its device step
// is less than 1, only the error flag (error_flag.h) is written.
void adamw(KernelBuilder& k, const AdamwMeta& m);

// Rows: elements.
Operation adamw(const Machine& machine, const AdamwOptions& options);

// The field `vectors` counts 16-byte vectors of a moment, which is f32.
using Adamw = ConfiguredKernel<AdamwOptions, ElementwiseConfig>;
extern const Adamw adamw_kernel;

}  // namespace ligerdsl::kernels
