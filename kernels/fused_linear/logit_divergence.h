// Divergences between the softmax of student logits and of teacher logits, row by row, and the
// gradient of the student's logits. fused_linear_jsd runs this kernel between its matmuls.
#pragma once

#include <cstdint>

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/divergence/divergence.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct LogitDivergenceOptions {
  int64_t classes = 32000;            // V
  DType type = f32;                   // dtype of the gradient, and of both logits unless f32_logits
  bool f32_logits = false;            // both logits are f32, the gradient is `type`
  Divergence kind = Divergence::jsd;  // forward_kl, reverse_kl or jsd
  Reduction reduction = Reduction::batchmean;
  bool tempered = false;    // divide logits by a temperature
  bool has_labels = false;  // skip rows whose label is ignore_index
  DType label_type = i64;
  bool with_loss = true;
  DType loss_type = f32;
  bool with_gradient = false;
  bool with_d_loss = false;  // multiply the gradient by the upstream gradient d_loss
  DType d_loss_type = f32;

  DType logits_type() const { return f32_logits ? f32 : type; }
  // Returns true if the gradient overwrites the student's logits: if both have the same dtype.
  bool in_place() const { return logits_type() == type; }

  template <class V>
  void visit(V&& v) {
    v("classes", classes);
    v("type", type);
    v("f32_logits", f32_logits);
    v("kind", kind, {"kl", "forward_kl", "reverse_kl", "jsd", "tvd"});
    v("reduction", reduction, {"none", "mean", "sum", "batchmean"});
    v("tempered", tempered);
    v("has_labels", has_labels);
    v("label_type", label_type);
    v("with_loss", with_loss);
    v("loss_type", loss_type);
    v("with_gradient", with_gradient);
    v("with_d_loss", with_d_loss);
    v("d_loss_type", d_loss_type);
  }
};

struct LogitDivergenceMeta : LogitDivergenceOptions {
  int64_t block = 1024;       // columns per tile; the tile holds a whole row unless `looped`
  bool looped = false;        // rows are wider than a tile and read in blocks
  BlockLanes lanes;           // distribution of a block's columns over lanes
  bool relative_log = false;  // as in DivergenceTerms
};

// Returns true if the rows need the results of cross_entropy_count.
bool needs_counts(const LogitDivergenceOptions& o);

// One program per row. Arguments; the options select those in brackets:
// - outputs: [row_loss] [n] f32: each row's part of the reduced loss; the gradient overwrites
//   logits if in_place(), otherwise it is [d_logits] [n, V] type
// - inputs: logits [n, V] logits_type: the student's; target_logits [n, V] logits_type; [labels]
//   [n]; [d_loss] [1]; [counts]
// - scalars: [ignore_index] i64; [rows] i64: rows of the whole batch, without labels, unless
//   reduction is sum; [beta] f32 for jsd; [temperature] f32
void logit_divergence(KernelBuilder& k, const LogitDivergenceMeta& m);

// Rows: rows of logits. Steps: counts if needed, this kernel, and loss [1] loss_type = sum of
// row_loss. Workspace: counts and row_loss, if needed.
Operation logit_divergence(const Machine& machine, const LogitDivergenceOptions& options);

using LogitDivergence = ConfiguredKernel<LogitDivergenceOptions, RowConfig>;
extern const LogitDivergence logit_divergence_kernel;

}  // namespace ligerdsl::kernels
