// Divergences between softmaxes of rows of logits, a student's and a teacher's, with the gradient of the student's
// logits: what runs between the products of fused_linear_jsd.
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
  DType type = f32;                   // of the gradient, and of both logits unless these are f32
  bool f32_logits = false;            // logits are f32 whatever type the gradient has
  Divergence kind = Divergence::jsd;  // forward_kl, reverse_kl or jsd
  Reduction reduction = Reduction::batchmean;
  bool tempered = false;    // logits are divided by a temperature
  bool has_labels = false;  // rows whose label is ignore_index do not count
  DType label_type = i64;
  bool with_loss = true;
  DType loss_type = f32;
  bool with_gradient = false;
  bool with_d_loss = false;  // the gradient is multiplied by the upstream gradient d_loss
  DType d_loss_type = f32;

  DType logits_type() const { return f32_logits ? f32 : type; }
  // True if the gradient overwrites the student's logits, which needs one type for both.
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
  int64_t block = 1024;       // columns of a tile: the whole row unless `looped`
  bool looped = false;        // wider rows: passes over blocks of the row
  BlockLanes lanes;           // how a block is dealt
  bool relative_log = false;  // DivergenceTerms
};

// Whether rows need what cross_entropy_count counts.
bool needs_counts(const LogitDivergenceOptions& o);

// One program per row. Arguments, those in brackets as the options say:
//   [row_loss] [n] f32: the rows' parts of the reduced loss; logits [n, V] logits_type: the student's; target_logits
//   [n, V] logits_type; the gradient if it is wanted, in the place of logits or as [d_logits] [n, V] type; [labels] [n]; [d_loss] [1]; [counts]; [ignore_index] i64; [rows] i64, of
//   the whole batch: without labels, not of a sum; [beta] f32: jsd; [temperature] f32.
void logit_divergence(KernelBuilder& k, const LogitDivergenceMeta& m);

// Rows: rows of logits. Steps: counts as needed, this kernel, and loss [1] loss_type = sum of row_loss. Scratch: counts and
// row_loss, as needed.
Operation logit_divergence(const Machine& machine, const LogitDivergenceOptions& options);

using LogitDivergence = ConfiguredKernel<LogitDivergenceOptions, RowConfig>;
extern const LogitDivergence logit_divergence_kernel;

}  // namespace ligerdsl::kernels
