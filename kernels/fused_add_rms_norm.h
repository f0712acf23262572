// sum = round(x + residual), y = RMSNorm(sum): the building blocks of rms_norm.h with the residual in front.
#pragma once

#include "kernels/rms_norm.h"

namespace ligerdsl::kernels {

// Arguments: y, sum, x, residual, [weight], [rstd], eps, [offset]. sum may be exactly x or residual.
inline Operation fused_add_rms_norm_forward(const Machine& machine, const RmsNormOptions& options) {
  RmsNormOptions with_residual = options;
  with_residual.residual = true;
  return rms_norm_forward(machine, with_residual);
}

// d_x = round(RMSNorm gradient of d_y at sum + d_sum): the gradient of x and of residual.
// Arguments: d_x, d_y, sum, [d_sum], [weight], rstd, [offset], [d_weight]. d_x may be exactly d_y or d_sum.
inline Operation fused_add_rms_norm_backward(const Machine& machine, const RmsNormOptions& options) {
  RmsNormOptions with_residual = options;
  with_residual.residual = true;
  return rms_norm_backward(machine, with_residual);
}

}  // namespace ligerdsl::kernels
