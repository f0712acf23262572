// The schedules of RMSNorm's forward.
#pragma once

#include "kernels/config.h"
#include "kernels/rms_norm.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

struct RmsNormForwardConfig : RowConfig {
  // Read the weight before the reduction, which hides its latency, where registers are not short.
  bool early_weight = false;

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("early_weight", early_weight, Bits::same);
  }
};

using RmsNormForward = ConfiguredKernel<RmsNormOptions, RmsNormForwardConfig>;
extern const RmsNormForward rms_norm_forward_kernel;
extern const RmsNormForward fused_add_rms_norm_forward_kernel;  // sum = x + residual comes first

}  // namespace ligerdsl::kernels
