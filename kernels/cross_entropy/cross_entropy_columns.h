// Gradient of cross-entropy for some or all columns of the logits, given the lse of each row. The
// backward of fused linear cross-entropy uses it on recomputed logits, of all classes or of one
// block of classes at a time.
#pragma once

#include <cstdint>

#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

struct CrossEntropyColumnsMeta : CrossEntropyOptions {
  int64_t block = 1024;  // columns per tile
  bool reports = false;  // report labels that are not a class, as cross_entropy_rows does
};

// Overwrites logits with their gradient. Arguments; the options select those in brackets:
// - logits [n, columns] type: the columns from first_column on
// - labels [n]; lse [n] f32; [label_logit] [n] f32: z of the label, with token scaling
// - [bias] [columns]; [weight] [V], [column_weight] [columns]
// - [d_loss] [1], or [n] if reduction is none; [entropy], [d_entropy] [n] f32; [counts]
// - [error] [1] i64, [first_row] i64
// - ignore_index i64; first_column i64; [label_smoothing], [lse_square_scale], [softcap],
//   [temperature]
void cross_entropy_columns(KernelBuilder& k, const CrossEntropyColumnsMeta& m);

// Computes label_logit = z of each row's label, or 0 if the label is not a class. Arguments:
// label_logit [n] f32; logits [n, V] type; labels [n]; [bias] [V]; [softcap], [temperature].
void cross_entropy_label_logit(KernelBuilder& k, const CrossEntropyOptions& m);

// Rows: blocks of columns; each row of logits has column_blocks(columns) blocks.
struct CrossEntropyColumns {
  Step step;
  int64_t block = 0;
  int64_t column_blocks(int64_t columns) const { return ceil_div(columns, block); }
};
CrossEntropyColumns cross_entropy_columns(const Machine& machine,
                                          const CrossEntropyOptions& options, bool reports = false);

// Rows: rows of logits.
Step cross_entropy_label_logit(const Machine& machine, const CrossEntropyOptions& options);

}  // namespace ligerdsl::kernels
