// Gradient of cross-entropy with respect to logits z = x w^T, given the lse of each row. The
// matmul's epilogue computes it from the accumulators, so the logits are neither stored nor
// rounded.
#pragma once

#include "kernels/fused_linear/linear_cross_entropy.h"

namespace ligerdsl::kernels {

struct LinearCrossEntropyColumns {
  // Rows: tiles. Arguments; the options select those in brackets:
  // - d [n, columns] type (out)
  // - x [n, H], weight [columns, H] type: the classes from first_column on
  // - labels [n]; lse [n] f32; [label_logit] [n] f32: z of the label, with token scaling
  // - [bias] [columns]; [class_weight] [V], [column_weight] [columns]
  // - [d_loss] [1], or [n] if reduction is none; [entropy], [d_entropy] [n] f32; [counts]
  // - [error] [1] i64, [first_row] i64
  // - ignore_index i64; first_column i64; [label_smoothing], [lse_square_scale], [softcap],
  //   [temperature]
  Step gradient;
  // Rows: rows of x. Only with token scaling. Arguments: those of LinearCrossEntropy::label_logits
  // without base.
  Step label_logits;

  MatmulConfig config;  // schedule of the tiles
};
// With `reports`, the step sets the error flag if a label is neither a class nor ignore_index.
LinearCrossEntropyColumns linear_cross_entropy_columns(const Machine& machine,
                                                       const LinearCrossEntropyOptions& options,
                                                       bool reports);

}  // namespace ligerdsl::kernels
