// LayerNorm with weight and optional bias, and LayerNorm of the sum of x and a residual.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/norm/moments.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/reduce/reduce_partials.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Parameters whose gradients a backward computes.
enum class LayerNormGradients { both, weight, bias };

struct LayerNormOptions {
  int64_t cols = 4096;      // row width H
  DType type = f32;         // dtype of x, y and their gradients
  DType weight_type = f32;  // dtype of weight and bias
  bool residual = false;    // normalise sum = round(x + residual) instead of x

  bool with_mean = true, with_rstd = true;  // forward: write mean, rstd

  bool without_bias = false;  // forward

  bool want_d_weight = true;  // backward: compute the parameter gradients that `gradients` names
  LayerNormGradients gradients = LayerNormGradients::both;
  DType d_weight_type = f32;  // dtype of d_weight and d_bias: f32 or weight_type
  bool accumulate = false;    // d_weight += ..., d_bias += ...; f32 only
  bool with_d_sum = false;   // backward with residual: add d_sum, the gradient of other uses of sum
  bool without_d_x = false;  // backward: compute only the parameter gradients

  int sums() const { return gradients == LayerNormGradients::both ? 2 : 1; }

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("weight_type", weight_type);
    v("with_mean", with_mean);
    v("with_rstd", with_rstd);
    v("want_d_weight", want_d_weight);
    v("d_weight_type", d_weight_type);
    v("accumulate", accumulate);
    v("without_bias", without_bias);
    v("gradients", gradients, {"both", "weight", "bias"});
    v("with_d_sum", with_d_sum);
    v("without_d_x", without_d_x);
  }
};

struct LayerNormMeta : LayerNormOptions {
  int64_t rows = 1;      // rows of a tile
  int64_t block = 4096;  // columns of a tile: the whole row unless `looped`
  BlockLanes lanes;      // forward: distribution of a tile's row over lanes
  bool looped = false;   // wider rows: a program makes two passes over blocks of its row
  // True if tiles begin at 16-byte boundaries (View::alignment_offset). Such a tile has one row
  // and, unless `looped`, at least columns_with_offset() columns.
  bool aligned_blocks = false;
  // Loops over rows:
  // Divisor of the number of programs, so that all rows of a program have one alignment offset.
  int64_t row_period = 1;
  // Forward: a program computes several rows, with weight and bias in registers.
  bool loops_over_rows = false;
  int stages = 1;              // pipeline stages; 2 loads the next rows during this iteration
  bool reload_weight = false;  // load the weight again for every row, to save registers
};

// Arguments: y, [sum], x, [residual], weight, [bias], [mean], [rstd], eps.
//   y, sum, x, residual [n, H] type; weight, bias [H] weight_type; mean, rstd [n] f32; eps f32
//   scalar.
// sum may be exactly x or residual.
void layer_norm_forward(KernelBuilder& k, const LayerNormMeta& m);

// Arguments: d_x, [weight_partials], [bias_partials], d_y, x (or sum, if residual), [d_sum],
// weight, mean, rstd. d_x may be exactly d_y or d_sum. The partials [programs, H] f32 are each
// program's partial sums of d_weight and d_bias.
void layer_norm_backward(KernelBuilder& k, const LayerNormMeta& m);

// Computes the partials if rows are too wide for layer_norm_backward to hold, or if d_x is not
// wanted. Arguments: [weight_partials], [bias_partials], d_y, and for d_weight x (or sum), mean,
// rstd.
void layer_norm_d_weight(KernelBuilder& k, const LayerNormMeta& m);

// Rows: rows of x. The backward has the scratch "weight_partials" and "bias_partials", for the
// wanted gradients. d_weight and d_bias are arguments of its last launch.
Operation layer_norm_forward(const Machine& machine, const LayerNormOptions& options);
Operation layer_norm_backward(const Machine& machine, const LayerNormOptions& options);

struct LayerNormForwardConfig : RowConfig {
  // Programs per SM, each of which loops over rows and loads weight and bias once; 0: one program
  // per row. It is ignored unless has_aligned_blocks() is true and keep is registers.
  int programs_per_sm = 0;

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v);
    v("programs_per_sm", programs_per_sm, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::same);
  }
};

using LayerNormForward = ConfiguredKernel<LayerNormOptions, LayerNormForwardConfig>;
extern const LayerNormForward layer_norm_forward_kernel;
extern const LayerNormForward fused_add_layer_norm_forward_kernel;  // normalises sum = x + residual

// Returns the distribution of a tile's rows over lanes. With one row per tile, a thread is a lane.
// With several rows, a vector is a lane. On a CPU, a lane of a one-row tile adds eight elements
// that are not contiguous, if 1024 divides `block`.
BlockLanes lanes_of_rows(const Machine& machine, DType type, int64_t rows, int64_t block,
                         const RowConfig& config);

// Returns the reductions of weight_partials and bias_partials to the wanted gradients.
std::vector<PartialSums> layer_norm_sums(LayerNormGradients gradients, DType type, int64_t cols,
                                         bool accumulate);

using LayerNormBackward = ConfiguredKernel<LayerNormOptions, NormBackwardConfig>;
extern const LayerNormBackward layer_norm_backward_kernel, fused_add_layer_norm_backward_kernel;

}  // namespace ligerdsl::kernels
