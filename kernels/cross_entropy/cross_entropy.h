// Cross-entropy of rows of logits with all its options: loss, z-loss, accuracy, predictions, gradient.
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
  DType type = f32;         // of logits and d_logits
  DType label_type = i64;
  Reduction reduction = Reduction::mean;
  bool has_bias = false;  // bias [V] is added to every row before anything else
  DType bias_type = f32;
  bool has_weight = false;  // class weights
  DType weight_type = f32;
  bool smoothing = false;   // label_smoothing is not 0
  bool lse_square = false;  // lse_square_scale is not 0
  bool softcap = false;
  bool quick_softcap = false;  // allows_quick_softcap()
  bool tempered = false;       // logits are divided by a temperature
  bool with_loss = true;
  DType loss_type = f32;  // of loss and z_loss
  bool with_z_loss = false, with_accuracy = false, with_predictions = false, with_lse = false;
  bool with_entropy = false;
  bool with_gradient = false;
  bool with_d_loss = false;  // the gradient is multiplied by the upstream gradient d_loss
  DType d_loss_type = f32;
  bool with_d_entropy = false;  // the gradient is that of the entropies, times d_entropy, as well
  bool token_scaling = false;   // loss, z loss and gradient of a row times p_y, taken as a constant
  bool part = false;            // the rows are part of a batch whose first row is `first_row`

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
  int64_t block = 1024;           // columns of a tile: the whole row unless `looped`
  bool looped = false;            // wider rows: two passes over blocks of the row
  bool aligned_blocks = false;    // blocks begin at whole vectors wherever rows do (View::alignment_offset)
  bool prefetched = true;         // the first pass loads a block ahead
  BlockLanes lanes;               // how a block is dealt
  bool several_rows = false;      // program p takes rows p, p + programs, p + 2 programs ...
  bool without_logits = false;    // nothing of a row is read but what others found out about it
  bool without_d_logits = false;  // a gradient is made, and stored elsewhere
  bool totals_in_parts = false;   // partial results of many rows come from a launch before (cross_entropy_totals.h)
};

// Whether the last launch counts the rows and divides by their number. The others need no number of rows then, so no
// launch has to count them first.
inline bool divides_at_the_end(const CrossEntropyOptions& m) {
  return m.reduction == Reduction::mean && !m.with_gradient && !m.has_weight && !m.part;
}

// Whether rows need what cross_entropy_count counts.
bool needs_counts(const CrossEntropyOptions& m);

// Counts the rows on the device, as the options ask. Arguments: counts [4] f32 (out), labels [n] label_type,
// [weight [V] weight_type], ignore_index i64; with totals_in_parts also the scratch of add_count. One program.
// counts = 1/n, 1/S, W, n: n rows that are not ignored, S the sum of their weights (n without weights), W the sum of
// all weights; 1/n and 1/S are 0 when n is 0.
void cross_entropy_count(KernelBuilder& k, const CrossEntropyMeta& m);

// One program per row, or any number of programs with several_rows. Arguments, those in brackets as the options say:
//   [row_loss], [row_z_loss], [row_accuracy], [entropy], [lse] [n] f32; loss and z_loss [n] loss_type and accuracy [n] f32 stand
//   in their place when reduction is none; [predictions] [n] i64; [d_logits] [n, V] type; logits [n, V] type; labels
//   [n]; [bias], [weight] [V]; [d_loss] [1], or [n] when reduction is none; [d_entropy] [n] f32; [counts]; error [1] i64;
//   ignore_index i64; [first_row] i64; [label_smoothing], [lse_square_scale], [softcap], [temperature] f32. counts are
//   of the whole batch.
// d_logits may be exactly logits. Without a gradient logits are not written.
void cross_entropy_rows(KernelBuilder& k, const CrossEntropyMeta& m);

// loss, z_loss = sums of the rows, or means if it divides; accuracy = sum / n. Arguments: [loss [1], row_loss],
// [z_loss [1], row_z_loss], [accuracy [1] f32, row_accuracy], [counts], or if it divides labels and ignore_index; with
// totals_in_parts also the scratch of add_finish. One program.
void cross_entropy_finish(KernelBuilder& k, const CrossEntropyMeta& m);

// Rows: rows of logits. Scratch: counts, row_loss, row_z_loss, row_accuracy, as needed.
Operation cross_entropy(const Machine& machine, const CrossEntropyOptions& options);

struct CrossEntropyConfig : RowConfig {
  // Programs of an SM that start in 45 us on an H200, where a program for each of 10^6 rows takes 1.35 ms. They are some
  // ten times what runs there together, so that the last ones leave an SM idle for a tenth of the time at most.
  static constexpr int kProgramsOfShortRows = 256;

  bool prefetched = false;  // rows in blocks: the first pass loads a block ahead
  int programs_per_sm =
      0;  // whole rows: most programs per SM, each of which takes several rows; 0: one program per row

  // Without the program.
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

// What a Config makes of the options.
CrossEntropyMeta cross_entropy_meta(const Machine& machine, const CrossEntropyOptions& o,
                                    const CrossEntropyConfig& config);
// `rows`, after what counts for it and before what adds up its results; with their scratch.
Operation with_totals(const CrossEntropyMeta& meta, Step rows);

}  // namespace ligerdsl::kernels
