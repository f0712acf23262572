// The schedules of LayerNorm's forward.
#pragma once

#include "kernels/config.h"
#include "kernels/layer_norm.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

using LayerNormForward = ConfiguredKernel<LayerNormOptions, RowConfig>;
extern const LayerNormForward layer_norm_forward_kernel;
extern const LayerNormForward fused_add_layer_norm_forward_kernel;  // sum = x + residual comes first

}  // namespace ligerdsl::kernels
