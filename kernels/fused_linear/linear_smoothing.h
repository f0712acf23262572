// Terms that label smoothing (a) adds to the gradients of an lm_head whose logits are not stored.
// With s = -a / V times the row's scale, smoothing adds s [w_c] to every d_c. So
//
//   d_x[i]      += s_i (sum over classes c of [w_c] weight[c])
//   d_weight[c] += [w_c] (sum over rows i of s_i x[i])
//   d_bias[c]   += [w_c] (sum over rows i of s_i)
//
// The sums of rows are vectors [H], so no intermediate result has the size of the logits.
#pragma once

#include "kernels/core/launch.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

struct LinearSmoothing {
  // Computes class_factor = w_c, or 1 without class weights. Arguments: class_factor [V] f32 (out),
  // [class_weight] [V].
  Step class_factors;
  // Computes partial sums of rows times one factor per row, for the rows of the weight or of x. A
  // row with a factor of 0 adds 0, even if it is not finite. Arguments: partials [parts, H] f32
  // (out), rows [n, H] of `head_type` or `type`; factor [n] f32.
  Step weight_sums, x_sums;
  // Computes `sums` [H] f32, the total of the partials. Arguments: `sums` (out), partials.
  Step finish;
  // Arguments: d_bias [V] f32 (added to), class_factor [V], factor [n] f32.
  Step bias;

  int64_t parts = 0;
};
LinearSmoothing linear_smoothing(const Machine& machine, DType type, DType head_type,
                                 const CrossEntropyOptions& options, int64_t cols);

}  // namespace ligerdsl::kernels
