// The schedules of LayerNorm's forward.
#pragma once

#include "kernels/config.h"
#include "kernels/layer_norm.h"
#include "kernels/reduce_partials.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

using LayerNormForward = ConfiguredKernel<LayerNormOptions, RowConfig>;
extern const LayerNormForward layer_norm_forward_kernel;
extern const LayerNormForward fused_add_layer_norm_forward_kernel;  // sum = x + residual comes first

// How tiles of so many rows, or of a block of one, are dealt. One row's vectors go to as many lanes as there are threads; of
// several rows each vector is a lane. A CPU adds up eight elements of a lane, which are not neighbours, where that leaves
// whole vectors of lanes.
BlockLanes lanes_of_rows(const Machine& machine, DType type, int64_t rows, int64_t block, const RowConfig& config);

// d_weight and d_bias of weight_partials and bias_partials, as far as they are wanted.
std::vector<PartialSums> layer_norm_sums(LayerNormGradients gradients, DType type, int64_t cols, bool accumulate);

}  // namespace ligerdsl::kernels
