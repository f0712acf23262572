// The schedules of RMSNorm's and LayerNorm's backward.
#pragma once

#include "kernels/config.h"
#include "kernels/layer_norm.h"
#include "kernels/norm_backward.h"
#include "kernels/rms_norm.h"

namespace ligerdsl::kernels {

using RmsNormBackward = ConfiguredKernel<RmsNormOptions, NormBackwardConfig>;
extern const RmsNormBackward rms_norm_backward_kernel, fused_add_rms_norm_backward_kernel;
using LayerNormBackward = ConfiguredKernel<LayerNormOptions, NormBackwardConfig>;
extern const LayerNormBackward layer_norm_backward_kernel, fused_add_layer_norm_backward_kernel;

}  // namespace ligerdsl::kernels
