// The schedules of softmax.
#pragma once

#include "kernels/config.h"
#include "kernels/row_config.h"
#include "kernels/softmax.h"

namespace ligerdsl::kernels {

using SoftmaxKernel = ConfiguredKernel<SoftmaxOptions, RowConfig>;
extern const SoftmaxKernel softmax_forward_kernel, softmax_backward_kernel;

}  // namespace ligerdsl::kernels
