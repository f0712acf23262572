// What label smoothing adds to the gradients of a head whose logits are not stored: d_c of every class gets s [w_c], with s = -a / V
// times the row's scale, so d_x gets s times the sum of all rows of the weight, [times w_c]; the weight's gradient w_c times the
// sum of all rows of x times s; and the bias's w_c times the sum of all s. Nothing of it is as large as the logits.
#pragma once

#include "kernels/core/launch.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

struct LinearSmoothing {
  // Rows: classes. class_factor = w_c, or 1. Arguments: class_factor [V] f32 (out), [class_weight] [V].
  Step class_factors;
  // Partial sums of rows times a number of their own, 0 leaves a row out: of the weight's, and of x's. Arguments: partials
  // [parts, H] f32 (out), rows [n, H] of `head_type`, or of `type`; factor [n] f32.
  Step weight_sums, x_sums;
  // sums [H] f32 = partials added up. Arguments: sums (out), partials.
  Step finish;
  // Arguments: d_bias [V] f32 (added to), class_factor [V], factor [n] f32.
  Step bias;

  int64_t parts = 0;
};
LinearSmoothing linear_smoothing(const Machine& machine, DType type, DType head_type,
                                 const CrossEntropyOptions& options, int64_t cols);

}  // namespace ligerdsl::kernels
