// Divergences between rows of two tensors: Kullback-Leibler, generalised Jensen-Shannon and total
// variation. The same pass computes the gradient of the first tensor.
#pragma once

#include <cstdint>

#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "kernels/core/reduction.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// x is an element of `input`, y of `target`. More formulas: divergence_terms.cpp.
enum class Divergence {
  kl,          // x = log q, y = p: p (log p - x)
  forward_kl,  // x = log q, y = log p: p (y - x)
  reverse_kl,  // x = log q, y = log p: q (x - y)
  jsd,         // x = log q, y = log p: divergences of p and q from their mixture, weighted by beta
  tvd,         // |x - y| / 2
};

struct DivergenceOptions {
  int64_t cols = 32000;  // row width V
  DType type = f32;      // dtype of input and d_input
  DType target_type = f32;
  Divergence kind = Divergence::kl;
  Reduction reduction = Reduction::batchmean;
  bool has_labels = false;  // skip rows whose label is ignore_index
  DType label_type = i64;
  bool with_loss = true;
  DType loss_type = f32;
  bool with_gradient = false;
  bool with_d_loss = false;  // multiply the gradient by the upstream gradient d_loss
  DType d_loss_type = f32;

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("target_type", target_type);
    v("kind", kind, {"kl", "forward_kl", "reverse_kl", "jsd", "tvd"});
    v("reduction", reduction, {"none", "mean", "sum", "batchmean"});
    v("has_labels", has_labels);
    v("label_type", label_type);
    v("with_loss", with_loss);
    v("loss_type", loss_type);
    v("with_gradient", with_gradient);
    v("with_d_loss", with_d_loss);
    v("d_loss_type", d_loss_type);
  }
};

struct DivergenceMeta : DivergenceOptions {
  int64_t rows = 1;
  int64_t block = 1024;       // columns per tile
  int64_t tiles = 1;          // adjacent tiles per program
  int stages = 1;             // num_stages of the loop over tiles
  bool relative_log = false;  // DivergenceTerms
};

// Returns true if the rows need the results of cross_entropy_count.
bool needs_counts(const DivergenceOptions& m);

// A program computes `tiles` adjacent tiles. Arguments; options select those in brackets:
// - outputs: [loss] [n, V] loss_type if reduction is none, else row_loss f32, one element per
//   program; [d_input] [n, V] type
// - inputs: input [n, V] type; target [n, V] target_type; [labels] [n]; [d_loss] [1], or [n, V] if
//   reduction is none; [counts] (cross_entropy_count) for a mean with labels
// - scalars: [ignore_index] i64; [beta] f32 for jsd; [eps] f32 for kl
//
// d_input may be the same memory as input.
void divergence(KernelBuilder& k, const DivergenceMeta& m);

// Rows: rows of input. Scratch if needed: counts, row_loss, partial sums. Reduced loss: loss [1].
Operation divergence(const Machine& machine, const DivergenceOptions& options);

// The tile fields change the order in which the loss is summed.
struct DivergenceConfig : ElementwiseConfig {
  int tiles = 1;   // adjacent tiles that a program computes in a loop
  int stages = 1;  // tiles in flight, including the current one

  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 4096), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("tiles", tiles, powers_of_two(1, 64), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
  }
};

using DivergenceKernel = ConfiguredKernel<DivergenceOptions, DivergenceConfig>;
extern const DivergenceKernel divergence_kernel;

}  // namespace ligerdsl::kernels
