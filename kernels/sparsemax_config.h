// The schedules of sparsemax.
#pragma once

#include "kernels/config.h"
#include "kernels/row_config.h"
#include "kernels/sparsemax.h"

namespace ligerdsl::kernels {

// keep=registers: num_ctas of a cluster hold a row together. keep=shared: blocks that are read again for each pass.
using SparsemaxKernel = ConfiguredKernel<SparsemaxOptions, RowConfig>;
extern const SparsemaxKernel sparsemax_forward_kernel, sparsemax_backward_kernel;

}  // namespace ligerdsl::kernels
