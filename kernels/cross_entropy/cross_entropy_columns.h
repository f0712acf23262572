// The gradient of cross-entropy for some columns of the logits, or all, once the rows' log-sum-exp is known. With it
// gradients can be made when their upstream gradient is known, from logits that are multiplied a second time, and that
// of a weight block by block of its rows.
#pragma once

#include <cstdint>

#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

struct CrossEntropyColumnsMeta : CrossEntropyOptions {
  int64_t block = 1024;  // columns of a tile
  bool reports = false;  // labels that are no class, as cross_entropy_rows does
};

// logits = their gradient, in place. Arguments, those in brackets as the options say:
//   logits [n, columns] type: the columns from first_column on; labels [n]; lse [n] f32; [label_logit] [n] f32: with
//   token scaling, z of the label; [bias] [columns]; [weight] [V], [column_weight] [columns]; [d_loss] [1], or [n] when
//   reduction is none; [entropy], [d_entropy] [n] f32; [counts]; [error] [1] i64, [first_row] i64; ignore_index i64;
//   first_column i64; [label_smoothing], [lse_square_scale], [softcap], [temperature].
void cross_entropy_columns(KernelBuilder& k, const CrossEntropyColumnsMeta& m);

// label_logit = z of every row's label, 0 where there is none. Arguments: label_logit [n] f32; logits [n, V] type;
// labels [n]; [bias] [V]; [softcap], [temperature].
void cross_entropy_label_logit(KernelBuilder& k, const CrossEntropyOptions& m);

// Rows: blocks of all rows, that is column_blocks(columns) for every row of logits.
struct CrossEntropyColumns {
  Step step;
  int64_t block = 0;
  int64_t column_blocks(int64_t columns) const { return ceil_div(columns, block); }
};
CrossEntropyColumns cross_entropy_columns(const Machine& machine, const CrossEntropyOptions& options,
                                          bool reports = false);

// Rows: rows of logits.
Step cross_entropy_label_logit(const Machine& machine, const CrossEntropyOptions& options);

}  // namespace ligerdsl::kernels
