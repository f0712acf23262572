// Cross-entropy of logits whose vocabulary is split among devices. The first operation computes
// statistics of the rows of one shard. After the devices exchange them, the second operation
// computes the loss and the shard's gradient from the statistics of all shards.
#pragma once

#include <cstdint>

#include "kernels/core/launch.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Columns of a row's statistics, f32.
enum Partial : int {
  kPartialMaximum,  // m, the shard's largest logit, up to rounding
  kPartialOthers,   // sum of e^(x - m) over the shard's classes except the label
  kPartialLabel,    // the label's logit if the shard owns it, else 0
  kPartialBelow,    // sum of x - m over the shard's classes; only with smoothing
  kPartialClasses,  // number of classes of the shard; only with smoothing
};

inline constexpr int64_t partial_columns(bool smoothing) {
  return smoothing ? 5 : 3;
}

struct VocabParallelPartialsOptions {
  int64_t classes = 32000;  // classes of the shard
  DType type = f32;
  DType label_type = i64;
  bool smoothing = false;

  template <class V>
  void visit(V&& v) {
    v("classes", classes);
    v("type", type);
    v("label_type", label_type);
    v("smoothing", smoothing);
  }
};

struct VocabParallelCrossEntropyOptions {
  int64_t classes = 32000;  // classes of the shard
  DType type = f32;         // dtype of logits and d_logits
  DType label_type = i64;
  Reduction reduction = Reduction::none;
  bool smoothing = false;
  bool shard_smoothing = false;  // smooth over the shard's own classes only
  bool with_loss = true;
  DType loss_type = f32;
  bool with_gradient = false;
  bool with_d_loss = false;  // multiply the gradient by the upstream gradient d_loss
  DType d_loss_type = f32;

  template <class V>
  void visit(V&& v) {
    v("classes", classes);
    v("type", type);
    v("label_type", label_type);
    v("reduction", reduction, {"none", "mean", "sum"});
    v("smoothing", smoothing);
    v("shard_smoothing", shard_smoothing);
    v("with_loss", with_loss);
    v("loss_type", loss_type);
    v("with_gradient", with_gradient);
    v("with_d_loss", with_d_loss);
    v("d_loss_type", d_loss_type);
  }
};

struct VocabParallelMeta : CrossEntropyMeta {
  bool shard_smoothing = false;
};

// One program per row, or any number with several_rows. Arguments: partials [n, columns] f32;
// logits [n, V] type; labels [n]; error [1] i64; ignore_index, first_class, total_classes i64.
// Ignored rows are not read; their statistics are 0.
void vocab_parallel_partials(KernelBuilder& k, const VocabParallelMeta& m);

// One program per row, or any number with several_rows. Options select the arguments in brackets:
// - outputs: [row_loss] [n] f32, or loss [n] loss_type if reduction is none; with a gradient
//   [d_logits] [n, V] type
// - inputs: [logits] [n, V] type with a gradient; labels [n]; partials [shards n, columns] f32;
//   [d_loss] [1], or [n] if reduction is none; [counts] (cross_entropy_count)
// - error [1] i64
// - scalars: ignore_index, first_class, total_classes, shards i64; with smoothing label_smoothing =
//   a and smoothing_of_class = a / K, f32; [shard] i64 with shard_smoothing
//
// d_logits may be the same memory as logits.
void vocab_parallel_cross_entropy(KernelBuilder& k, const VocabParallelMeta& m);

// Rows: rows of logits. Scratch of the second operation, as needed: counts, row_loss, partial sums.
Operation vocab_parallel_partials(const Machine& machine,
                                  const VocabParallelPartialsOptions& options);
Operation vocab_parallel_cross_entropy(const Machine& machine,
                                       const VocabParallelCrossEntropyOptions& options);

using VocabParallelPartials = ConfiguredKernel<VocabParallelPartialsOptions, CrossEntropyConfig>;
extern const VocabParallelPartials vocab_parallel_partials_kernel;

using VocabParallelCrossEntropy =
    ConfiguredKernel<VocabParallelCrossEntropyOptions, CrossEntropyConfig>;
extern const VocabParallelCrossEntropy vocab_parallel_cross_entropy_kernel;

}  // namespace ligerdsl::kernels
