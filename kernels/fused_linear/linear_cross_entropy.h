// Cross-entropy of logits z = x w^T that are never stored. The matmul stores exponentials relative
// to the label's logit. One factor per row converts them to the gradient.
#pragma once

#include <optional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

struct LinearCrossEntropyOptions : CrossEntropyOptions {
  DType head_type = bf16;  // dtype of the caller's weight; the matmul's operands have `type`
  int64_t cols = 4096;     // H
  bool scales_x = false;   // also store x times the row's factor, for d_weight
  bool in_blocks = false;  // e is stored in column blocks (column_blocks.h)
};

// Returns true if these kernels support the options. Except for the label's element and a smoothing
// term, each gradient element must be an exponential times a factor of its row. `type` must have
// f32's exponent range, so it is not f16.
//
// Gradients of entropies, and of a smoothed loss with softcap, do not have this form. They would
// need two more matmuls here, but only one more if the logits are stored.
bool has_exponentials(const CrossEntropyOptions& options);

// Steps in order, but `overflows` runs before `again`. u = z log2(e) - base is an exponent of 2.
// Row tiles without a counted row are not computed, stored or read. Rows of e, factor and scaled
// are at the places of row_tiles.h; all other rows are in the order of x.
struct LinearCrossEntropy {
  // Rows: tiles of rows. Arguments: see row_tiles.h.
  Step row_tiles;
  // Rows: rows of x. Computes base = label_logit log2(e) + 40; 40 without a valid label, 0 for a
  // logit of -inf. Arguments: label_logit, base [n] f32; x [n, H] type; weight [V, H] head_type;
  // labels [n]; [bias] [V]; ignore_index; [softcap], [temperature].
  Step label_logits;
  // Rows: tiles. Computes for the rows of each tile:
  // - `sums`: sum of 2^u without the label's; tops: largest z
  // - bests, with accuracy or predictions: the lowest class with that z
  // - deviations, with smoothing: sum of [w_c] (z_c - label_logit)
  // - moments, with an entropy: sum of u 2^u without the label's
  // - e, with a gradient: 2^u, times the softcap's slope
  //
  // Arguments:
  // - outputs: [e [n, columns] type], or with in_blocks [e [blocks, n, 2^block_shift]] and
  //   block_shift i32
  // - outputs [n, tiles of columns]: `sums`, tops, [deviations], [moments] f32, [bests] i32
  // - inputs: x [n, H], weight [columns, H] type; base [n], [label_logit] [n] f32; labels [n];
  //   [bias], [column_weight] [columns]; first_column i64; tile_at, counted; [softcap],
  //   [temperature]
  Step exponentials;
  // Rows: tiles. Repeats `exponentials` for each tile with a row for which `again` [n] i32 is 1.
  Step again;
  // Rows: rows of x. Sets a row's `again` to 1 if its largest u is too large or too small, else to
  // 0. The base of such a row becomes its largest z times log2(e). Arguments: base [n] f32, again
  // [n] i32, tops [n, tiles]; places.
  Step overflows;
  // Rows: rows of x. Stores the results of cross_entropy_rows except the gradient. Also stores
  // `factor`, and sets the label's element of e so that d_c = factor e_c for every class.
  //
  // Arguments:
  // - those of cross_entropy_rows without logits and bias, with e as d_logits
  // - with in_blocks instead of e: e_first [n, columns], its first block, and e_others [blocks, n,
  //   2^block_shift] with block_shift i32
  // - `sums`, tops [n, tiles], base, label_logit [n] f32; bests, deviations, moments as needed;
  //   places
  // - with a gradient factor [n] f32; with smoothing also smooth [n] f32, the factor of
  //   linear_smoothing.h, whose term d_c does not include
  Step rows;
  // Rows: rows of x. Optional: scaled = factor x, row by row. It is a separate launch, because
  // `scaled` may share memory with the tile statistics. Arguments: scaled [n, H] type (out), x,
  // factor, places.
  std::optional<Step> scaled_x;

  MatmulConfig config;  // schedule of the matmul
};
// Schedule and compile-time parameters of the matmul.
struct LinearMatmul {
  MatmulConfig config;
  MatmulMeta meta;
};
LinearMatmul linear_matmul(const Machine& machine, const LinearCrossEntropyOptions& options);

// Returns the step that computes each row's label logit. With `anchors`, it also writes `base`.
Step linear_label_logits(const Machine& machine, const LinearCrossEntropyOptions& options,
                         bool anchors);

LinearCrossEntropy linear_cross_entropy(const Machine& machine,
                                        const LinearCrossEntropyOptions& options);

}  // namespace ligerdsl::kernels
