// Cross-entropy of logits z = x w^T that are never stored: the product's tiles are stored as exponentials relative to the
// label's logit, which turn into the gradient's products by a factor of each row.
#pragma once

#include <optional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

struct LinearCrossEntropyOptions : CrossEntropyOptions {
  DType head_type = bf16;  // of the head's weight as the caller has it; products are of `type`
  int64_t cols = 4096;     // H
  bool scales_x = false;   // rows of x times the row's factor are wanted, for d_weight
  bool in_blocks = false;  // e's columns lie in blocks (column_blocks.h)
};

// Whether rows have this form: their gradient is a factor of the row times an exponential, but for the label's and what
// smoothing takes from all classes alike, and such exponentials have f32's range. The gradient of an entropy is not, nor is that
// of a smoothed loss of capped logits; both would take a third product of the weight's size where logits take one.
bool has_exponentials(const CrossEntropyOptions& options);

// In order; u is base 2: z log2(e) - base. Of tiles of rows none of which counts nothing is multiplied, stored or read: rows of e,
// factor and scaled stand where row_tiles.h says, all others where they are in x.
struct LinearCrossEntropy {
  // Rows: tiles of rows. Arguments: those of row_tiles.h.
  Step row_tiles;
  // Rows: rows of x. base = label_logit log2(e) + 40, or 40 where no class counts.
  // Arguments: label_logit, base [n] f32; x [n, H] type; weight [V, H] head_type; labels [n]; [bias] [V];
  // ignore_index; [softcap], [temperature].
  Step label_logits;
  // Rows: tiles. Of each tile's rows: sums, tops = sum of 2^u without the label's, largest z; with accuracy or predictions
  // bests = the lowest class of that z; with smoothing deviations = sum of [w_c] (z_c - label_logit); with an entropy
  // moments = sum of u 2^u without the label's; with a gradient e = 2^u, times the softcap's slope.
  // Arguments: [e [n, columns] type], sums, tops, [deviations], [moments] [n, tiles of columns] f32, [bests] of these i32; x [n, H],
  // weight [columns, H] type; base [n], [label_logit] [n] f32; labels [n]; [bias], [column_weight] [columns];
  // first_column i64; tile_at, counted; [softcap], [temperature]. in_blocks: e [blocks, n, 2^block_shift], and block_shift i32.
  Step exponentials;
  // Rows: tiles. The same of those that have a row where `again` [n] i32 is not 0.
  Step again;
  // Rows: rows of x. again = whether a u was too large, or all too small; such a row's base becomes its largest logit's.
  // Arguments: base [n] f32, again [n] i32, tops [n, tiles]; places.
  Step overflows;
  // Rows: rows of x. What cross_entropy_rows stores, but for the gradient: factor, and in e the label's, such that
  // d_c = factor e_c. Arguments: as cross_entropy_rows without logits and bias, d_logits being e; sums [n, tiles], base,
  // label_logit [n] f32; tops and bests, deviations, moments as wanted; with a gradient factor [n] f32, with smoothing too
  // smooth [n] f32 (linear_smoothing.h's factor, and d_c without it); places. in_blocks: e as e_first [n, columns], its first
  // block, and e_others [blocks, n, 2^block_shift], and block_shift i32.
  Step rows;
  // Rows: rows of x. Where wanted, the rows of x times their factor; a launch of its own, as their memory may be that of the numbers
  // of tiles. Arguments: scaled [n, H] type (out), x, factor, places.
  std::optional<Step> scaled_x;

  MatmulConfig config;  // of the tiles
};
// The product's schedule.
struct LinearProduct {
  MatmulConfig config;
  MatmulMeta meta;
};
LinearProduct linear_product(const Machine& machine, const LinearCrossEntropyOptions& options);

// `anchors`: with base and again.
Step linear_label_logits(const Machine& machine, const LinearCrossEntropyOptions& options, bool anchors);

LinearCrossEntropy linear_cross_entropy(const Machine& machine, const LinearCrossEntropyOptions& options);

}  // namespace ligerdsl::kernels
