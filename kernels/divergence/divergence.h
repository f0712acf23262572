// Divergences between rows of two tensors: Kullback-Leibler, generalised Jensen-Shannon and total variation, with the
// gradient of the first tensor in the same pass.
#pragma once

#include <cstdint>

#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "kernels/core/reduction.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// With x an element of `input` and y of `target`; formulas in divergence.cpp.
enum class Divergence {
  kl,          // x = log q, y = p: p (log p - x)
  forward_kl,  // x = log q, y = log p: p (y - x)
  reverse_kl,  // x = log q, y = log p: q (x - y)
  jsd,         // x = log q, y = log p: both to their mixture, weighed by beta
  tvd,         // |x - y| / 2
};

struct DivergenceOptions {
  int64_t cols = 32000;  // row width V
  DType type = f32;      // of input and d_input
  DType target_type = f32;
  Divergence kind = Divergence::kl;
  Reduction reduction = Reduction::batchmean;
  bool has_labels = false;  // rows whose label is ignore_index do not count
  DType label_type = i64;
  bool with_loss = true;
  DType loss_type = f32;
  bool with_gradient = false;
  bool with_d_loss = false;  // the gradient is multiplied by the upstream gradient d_loss
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
  int64_t block = 1024;       // columns of a tile
  int64_t tiles = 1;          // side by side, of a program
  int stages = 1;             // of them that are on their way at once
  bool relative_log = false;  // DivergenceTerms
};

// Whether rows need what cross_entropy_count counts.
bool needs_counts(const DivergenceOptions& m);

// One program for so many tiles side by side. Arguments, those in brackets as the options say:
//   [loss] [n, V] loss_type when reduction is none, else row_loss f32, one element of each program; [d_input] [n, V]
//   type; input [n, V] type; target [n, V] target_type; [labels] [n]; [d_loss] [1], or [n, V] when reduction is none;
//   [counts] (cross_entropy_count): labels and a mean; [ignore_index] i64; [beta] f32: jsd; [eps] f32: kl.
// d_input may be exactly input.
void divergence(KernelBuilder& k, const DivergenceMeta& m);

// Rows: rows of input. Scratch: counts and row_loss, as needed. The reduced loss is loss [1].
Operation divergence(const Machine& machine, const DivergenceOptions& options);

// The tiles decide the order of the loss's sum.
struct DivergenceConfig : ElementwiseConfig {
  int tiles = 1;   // of blocks side by side that a program takes, one after the other
  int stages = 1;  // tiles in flight: the one at work and those on their way

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
