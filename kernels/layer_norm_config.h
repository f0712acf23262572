// The schedules of LayerNorm's forward.
#pragma once

#include "kernels/config.h"
#include "kernels/layer_norm.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

using LayerNormForward = ConfiguredKernel<LayerNormOptions, RowConfig>;
extern const LayerNormForward layer_norm_forward_kernel;

}  // namespace ligerdsl::kernels
