// Cross-entropy of rows of logits with all its options: loss, z-loss, accuracy, predictions,
// gradient.
#pragma once

#include <cstdint>

#include "kernels/core/config.h"
#include "kernels/core/error_flag.h"
#include "kernels/core/launch.h"
#include "kernels/core/reduction.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct CrossEntropyOptions {
  int64_t classes = 32000;  // V
  DType type = f32;         // dtype of logits and d_logits
  DType label_type = i64;
  Reduction reduction = Reduction::mean;
  bool has_bias = false;  // bias [V] is added to each row first
  DType bias_type = f32;
  bool has_weight = false;  // class weights
  DType weight_type = f32;
  bool smoothing = false;   // label_smoothing is not 0
  bool lse_square = false;  // lse_square_scale is not 0
  bool softcap = false;
  bool quick_softcap = false;  // allows_quick_softcap()
  bool tempered = false;       // logits are divided by a temperature
  bool with_loss = true;
  DType loss_type = f32;  // dtype of loss and z_loss
  bool with_z_loss = false, with_accuracy = false, with_predictions = false, with_lse = false;
  bool with_entropy = false;
  bool with_gradient = false;
  bool with_d_loss = false;  // multiply the gradient by the upstream gradient d_loss
  DType d_loss_type = f32;
  bool with_d_entropy = false;  // also add the gradient of the entropies, times d_entropy
  bool token_scaling = false;   // multiply loss, z-loss and gradient by p_y, taken as a constant
  bool part = false;            // the rows are part of a batch and begin at its row `first_row`

  bool entropies() const { return with_entropy || with_d_entropy; }

  template <class V>
  void visit(V&& v) {
    v("classes", classes);
    v("type", type);
    v("label_type", label_type);
    v("reduction", reduction, {"none", "mean", "sum"});
    v("has_bias", has_bias);
    v("bias_type", bias_type);
    v("has_weight", has_weight);
    v("weight_type", weight_type);
    v("smoothing", smoothing);
    v("lse_square", lse_square);
    v("softcap", softcap);
    v("quick_softcap", quick_softcap);
    v("tempered", tempered);
    v("with_loss", with_loss);
    v("loss_type", loss_type);
    v("with_z_loss", with_z_loss);
    v("with_accuracy", with_accuracy);
    v("with_predictions", with_predictions);
    v("with_lse", with_lse);
    v("with_entropy", with_entropy);
    v("with_gradient", with_gradient);
    v("with_d_loss", with_d_loss);
    v("d_loss_type", d_loss_type);
    v("with_d_entropy", with_d_entropy);
    v("token_scaling", token_scaling);
    v("part", part);
  }
};

struct CrossEntropyMeta : CrossEntropyOptions {
  int64_t block = 1024;           // columns per tile: the whole row unless `looped`
  bool looped = false;            // rows are wider than a tile and are read in blocks
  bool aligned_blocks = false;    // blocks begin at 16-byte boundaries (View::alignment_offset)
  bool prefetched = true;         // the first pass is pipelined with two stages
  BlockLanes lanes;               // distribution of a block's columns over lanes
  int64_t rows = 1;               // if above 1, whole rows per tile (cross_entropy_tile.cpp)
  int64_t row_step = 1;           // if rows > 1: a tile has every row_step-th row
  bool several_rows = false;      // program p computes rows p, p + programs, p + 2 programs ...
  bool without_logits = false;    // the kernel reads only precomputed statistics of a row
  bool without_d_logits = false;  // compute the gradient without storing it to d_logits
  bool totals_in_parts = false;   // an earlier launch stores partial sums (cross_entropy_totals.h)
};

// Returns true if the last launch counts the rows that are not ignored and divides by their number.
// No other launch then needs this number, so no launch counts the rows first.
inline bool divides_at_the_end(const CrossEntropyOptions& m) {
  return m.reduction == Reduction::mean && !m.with_gradient && !m.has_weight && !m.part;
}

// Returns true if the rows need the results of cross_entropy_count.
bool needs_counts(const CrossEntropyOptions& m);

// Counts the rows on the device, with one program. Arguments: counts [4] f32 (out), labels [n]
// label_type, ignore_index i64, and with class weights also weight [V] weight_type. With
// totals_in_parts, the scratch of add_count is added.
//
// `counts` has 1/n, 1/S, W and n. n rows are not ignored; S is the sum of their weights (n without
// weights), and W the sum of all weights (0 without). If n is 0, 1/n and 1/S are 0.
void cross_entropy_count(KernelBuilder& k, const CrossEntropyMeta& m);

// One program per row or tile of rows, or any number of programs with several_rows. Options select
// the arguments in brackets:
// - outputs, reduction none: [loss], [z_loss] [n] loss_type, [accuracy] [n] f32
// - outputs, other reductions: [row_loss], [row_z_loss], [row_accuracy] [n] f32
// - outputs: [entropy], [lse] [n] f32; [predictions] [n] i64; [d_logits] [n, V] type
// - inputs: logits [n, V] type; labels [n]; [bias], [weight] [V]; [d_loss] [1], or [n] if reduction
//   is none; [d_entropy] [n] f32; [counts] of the whole batch
// - error [1] i64
// - scalars: ignore_index i64; [first_row] i64; [label_smoothing], [lse_square_scale], [softcap],
//   [temperature] f32
//
// d_logits may be the same memory as logits. Without a gradient the kernel does not write logits.
void cross_entropy_rows(KernelBuilder& k, const CrossEntropyMeta& m);

// Computes, with one program, loss and z_loss as sums over rows (means if divides_at_the_end), and
// accuracy as a mean. Arguments: [loss [1], row_loss], [z_loss [1], row_z_loss], [accuracy [1] f32,
// row_accuracy], [counts], or labels and ignore_index if divides_at_the_end. With totals_in_parts,
// the scratch of add_finish is added.
void cross_entropy_finish(KernelBuilder& k, const CrossEntropyMeta& m);

// Rows: rows of logits. Scratch if needed: counts, row_loss, row_z_loss, row_accuracy, partials.
Operation cross_entropy(const Machine& machine, const CrossEntropyOptions& options);

struct CrossEntropyConfig : RowConfig {
  // Programs per SM for short rows: about ten times the number that run at one time. An SM that
  // waits for the last programs is then idle for at most a tenth of the time. More programs would
  // take longer to start: an H200 starts these in 45 us.
  static constexpr int kProgramsOfShortRows = 256;

  bool prefetched = false;  // looped rows: the first pass loads a block ahead
  // Maximum programs per SM if each computes several whole rows, or 0 for one program per row.
  int programs_per_sm = 0;

  // Returns RowConfig's launch, limited to programs_per_sm programs per SM.
  Launch launch(const Machine& machine) const;

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("prefetched", prefetched, Bits::same);
    v("programs_per_sm", programs_per_sm, choices({0, 32, 64, 128, 256, 512}), Bits::same);
  }
};

using CrossEntropy = ConfiguredKernel<CrossEntropyOptions, CrossEntropyConfig>;
extern const CrossEntropy cross_entropy_kernel;

// Returns the heuristic's schedule with one row per tile.
CrossEntropyConfig one_row_per_tile(const Machine& machine, const CrossEntropyOptions& o);
// Returns the compile-time parameters for these options and this config.
CrossEntropyMeta cross_entropy_meta(const Machine& machine, const CrossEntropyOptions& o,
                                    const CrossEntropyConfig& config);
// Returns `rows` with the counting steps before it, the summing steps after it, and their scratch.
Operation with_totals(const CrossEntropyMeta& meta, Step rows);

}  // namespace ligerdsl::kernels
