// The schedules of DyT's backward; the forward's are in elementwise_config.h.
#pragma once

#include "kernels/column_sums_config.h"
#include "kernels/config.h"
#include "kernels/dyt.h"

namespace ligerdsl::kernels {

using DytBackward = ConfiguredKernel<DytOptions, ColumnSumsConfig>;
extern const DytBackward dyt_backward_kernel;

}  // namespace ligerdsl::kernels
