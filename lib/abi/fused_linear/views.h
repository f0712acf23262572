// Memory that the steps of a fused linear cross-entropy read and write: views of the caller's
// tensors and of the workspace.
#pragma once

#include <array>
#include <optional>

#include "lib/abi/kernel_step.h"
#include "lib/abi/ops/support.h"

namespace ligerdsl::lib::head {

using Desc = ligerdsl_fused_linear_cross_entropy_desc_t;

// Views of a call. `batch` is set once per call; the other members are set for the current chunk or
// block.
struct Views {
  // Tensors of all rows.
  struct Batch {
    // `weight` is the caller's, or a copy in the matmuls' dtype. If the copy is made in blocks,
    // `weight` is the caller's, and block.weight holds a block's copy.
    BoundTensor labels, weight, bias, class_weight;
    BoundTensor lse, label_logit, entropy, row_loss, row_z_loss, row_accuracy;
    BoundTensor loss, z_loss, accuracy, counts, error;
  } batch;

  // Rows [first, first + count) of the batch.
  struct Chunk {
    BoundTensor logits;   // logits of all classes or of a block; later their gradient
    BoundTensor x_given;  // rows of the caller's x
    BoundTensor x;        // rows of x in the matmuls' dtype
    BoundTensor labels, d_loss, d_entropy;
  } chunk;

  // Results for a chunk's rows.
  struct RowStatistics {
    BoundTensor lse, label_logit, entropy, loss, z_loss, accuracy, predictions;
  } rows;

  // Classes [first, first + count) of the vocabulary.
  struct Block {
    BoundTensor weight_given, weight, bias, class_weight;
  } block;

  // `*_wanted` are the caller's tensors. d_x, d_weight and d_bias are the same memory, or f32
  // accumulators that the last step rounds into `*_wanted`.
  struct Gradients {
    BoundTensor d_x, d_x_wanted, d_weight, d_weight_wanted, d_bias, d_bias_wanted;
    BoundTensor d_bias_row;  // d_bias as one row
  } gradients;

  // Memory of a chunk whose logits are not stored (kernels/fused_linear/linear_cross_entropy.h).
  struct Exponentials {
    BoundTensor first_block, other_blocks;  // exponentials per block of classes
    BoundTensor base;                       // base of each row's exponents
    BoundTensor again;                      // 1 for rows that overflow and are recomputed
    BoundTensor places, tile_at, counted;   // order of row tiles (kernels/matmul/row_tiles.h)
    BoundTensor all_depth;                  // last 2 values of `counted`: the range of all rows
    BoundTensor factor;                     // per row: gradient = factor * exponentials
    BoundTensor scaled_x;                   // rows of x times `factor`
  } exponentials;

  // Partial results of each row, one per tile of classes.
  struct TileStatistics {
    BoundTensor sums, tops, bests, deviations, moments;
  } tiles, block_tiles;  // statistics of all tiles, and of the tiles of the current block

  // Terms of label smoothing (kernels/fused_linear/linear_smoothing.h).
  struct Smoothing {
    BoundTensor of_rows, class_factor, weight_sums, x_sums, partials;
  } smoothing;
};

// Indices of a step's integer arguments.
enum Number : int { kFirstRow, kFirstColumn, kBlockShift, kNumbers };
using Numbers = std::array<int64_t, kNumbers>;

// Returns the names of views and numbers for kernels that compute results from logits or
// exponentials.
inline StepNames row_names() {
  return {.views = {{"loss", LIGERDSL_VIEW(rows.loss)},
                    {"z_loss", LIGERDSL_VIEW(rows.z_loss)},
                    {"accuracy", LIGERDSL_VIEW(rows.accuracy)},
                    {"row_loss", LIGERDSL_VIEW(rows.loss)},
                    {"row_z_loss", LIGERDSL_VIEW(rows.z_loss)},
                    {"row_accuracy", LIGERDSL_VIEW(rows.accuracy)},
                    {"lse", LIGERDSL_VIEW(rows.lse)},
                    {"entropy", LIGERDSL_VIEW(rows.entropy)},
                    {"predictions", LIGERDSL_VIEW(rows.predictions)},
                    {"d_logits", LIGERDSL_VIEW(chunk.logits)},
                    {"logits", LIGERDSL_VIEW(chunk.logits)},
                    {"labels", LIGERDSL_VIEW(chunk.labels)},
                    {"bias", LIGERDSL_VIEW(batch.bias)},
                    {"weight", LIGERDSL_VIEW(batch.class_weight)},
                    {"d_loss", LIGERDSL_VIEW(chunk.d_loss)},
                    {"d_entropy", LIGERDSL_VIEW(chunk.d_entropy)},
                    {"counts", LIGERDSL_VIEW(batch.counts)},
                    {"error", LIGERDSL_VIEW(batch.error)},
                    {"sums", LIGERDSL_VIEW(tiles.sums)},
                    {"tops", LIGERDSL_VIEW(tiles.tops)},
                    {"bests", LIGERDSL_VIEW(tiles.bests)},
                    {"deviations", LIGERDSL_VIEW(tiles.deviations)},
                    {"moments", LIGERDSL_VIEW(tiles.moments)},
                    {"smooth", LIGERDSL_VIEW(smoothing.of_rows)},
                    {"base", LIGERDSL_VIEW(exponentials.base)},
                    {"places", LIGERDSL_VIEW(exponentials.places)},
                    {"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                    {"factor", LIGERDSL_VIEW(exponentials.factor)},
                    {"e_first", LIGERDSL_VIEW(exponentials.first_block)},
                    {"e_others", LIGERDSL_VIEW(exponentials.other_blocks)}}};
}

// Returns a step with the given names of views. Its scalars come from the descriptor or from the
// call's numbers.
inline std::optional<KernelStep> head_step(Context& context, const Desc& d,
                                           const kernels::Step& recorded, StepNames names) {
  names.constants = {{"label_smoothing", d.label_smoothing},
                     {"lse_square_scale", d.lse_square_scale},
                     {"softcap", d.softcap},
                     {"temperature", d.temperature}};
  names.integers = {{"ignore_index", d.ignore_index}};
  names.numbers = {
      {"first_row", kFirstRow}, {"first_column", kFirstColumn}, {"block_shift", kBlockShift}};
  return std::make_optional<KernelStep>(context, recorded, names);
}

}  // namespace ligerdsl::lib::head
