// The gradient of cross-entropy's logits z = x w^T, once the rows' log-sum-exps are known: made by the product itself, whose
// sums are never stored nor rounded. cross_entropy_columns without the logits.
#pragma once

#include "kernels/fused_linear/linear_cross_entropy.h"

namespace ligerdsl::kernels {

struct LinearCrossEntropyColumns {
  // Rows: tiles. Arguments, those in brackets as the options say: d [n, columns] type (out); x [n, H], weight [columns, H] type: the
  // classes from first_column on; labels [n]; lse [n] f32; [label_logit] [n] f32: with token scaling, z of the label;
  // [bias] [columns]; [class_weight] [V], [column_weight] [columns]; [d_loss] [1], or [n] when reduction is none; [entropy],
  // [d_entropy] [n] f32; [counts]; [error] [1] i64, [first_row] i64; ignore_index i64; first_column i64; [label_smoothing],
  // [lse_square_scale], [softcap], [temperature].
  Step gradient;
  // Rows: rows of x. Of token scaling alone. Arguments: as LinearCrossEntropy::label_logits, without base and again.
  Step label_logits;

  MatmulConfig config;  // of the tiles
};
// `reports`: labels that are no class.
LinearCrossEntropyColumns linear_cross_entropy_columns(const Machine& machine, const LinearCrossEntropyOptions& options,
                                                       bool reports);

}  // namespace ligerdsl::kernels
