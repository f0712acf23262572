// The schedules of divergences of logits.
#pragma once

#include "kernels/config.h"
#include "kernels/logit_divergence.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

using LogitDivergence = ConfiguredKernel<LogitDivergenceOptions, RowConfig>;
extern const LogitDivergence logit_divergence_kernel;

}  // namespace ligerdsl::kernels
