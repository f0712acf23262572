// LayerNorm with weight and, unless it is left out, bias; and the same with a residual sum in front.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/norm/moments.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/reduce/reduce_partials.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Of which parameters a backward makes the gradients.
enum class LayerNormGradients { both, weight, bias };

struct LayerNormOptions {
  int64_t cols = 4096;      // row width H
  DType type = f32;         // of x, y and their gradients
  DType weight_type = f32;  // of weight and bias
  bool residual = false;    // sum = round(x + residual) comes first; the norm is of sum

  bool with_mean = true, with_rstd = true;  // forward: write them

  bool without_bias = false;  // forward

  bool want_d_weight = true;  // backward: d_weight and d_bias, or one of them
  LayerNormGradients gradients = LayerNormGradients::both;
  DType d_weight_type = f32;  // of both: f32 or weight_type
  bool accumulate = false;    // d_weight += ..., d_bias += ...; f32 only
  bool with_d_sum = false;    // backward of residual: a gradient that reaches sum by other ways
  bool without_d_x = false;   // backward: d_weight and d_bias, or one of them, alone

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
  BlockLanes lanes;      // forward: how a row of a tile is dealt
  bool looped = false;   // wider rows: a program makes two passes over blocks of its row
  // Backward, loops over rows:
  int stages = 1;              // loads in flight: 2 reads the next rows while these are worked on
  bool reload_weight = false;  // read the weight again for every row, where registers are short
};

// Arguments: y, [sum], x, [residual], weight, [bias], [mean], [rstd], eps.
//   y, sum, x, residual [n, H] type; weight, bias [H] weight_type; mean, rstd [n] f32; eps f32 scalar.
// sum may be exactly x or residual.
void layer_norm_forward(KernelBuilder& k, const LayerNormMeta& m);

// Arguments: d_x, [weight_partials], [bias_partials], d_y, x (or sum, if residual), [d_sum], weight, mean, rstd.
// d_x may be exactly d_y or d_sum. The partials [programs, H] f32 are every program's parts of d_weight and d_bias.
void layer_norm_backward(KernelBuilder& k, const LayerNormMeta& m);

// The partials of rows too wide for layer_norm_backward to keep, and where d_x is not wanted. Arguments:
// [weight_partials], [bias_partials], d_y, and for d_weight x (or sum), mean, rstd.
void layer_norm_d_weight(KernelBuilder& k, const LayerNormMeta& m);

// Rows: rows of x. The backward's d_weight and d_bias are arguments of its last launch; its scratch is
// "weight_partials" and "bias_partials", as far as they are wanted.
Operation layer_norm_forward(const Machine& machine, const LayerNormOptions& options);
Operation layer_norm_backward(const Machine& machine, const LayerNormOptions& options);

using LayerNormForward = ConfiguredKernel<LayerNormOptions, RowConfig>;
extern const LayerNormForward layer_norm_forward_kernel;
extern const LayerNormForward fused_add_layer_norm_forward_kernel;  // sum = x + residual comes first

// How tiles of so many rows, or of a block of one, are dealt. One row's vectors go to as many lanes as there are threads; of
// several rows each vector is a lane. A CPU adds up eight elements of a lane, which are not neighbours, where that leaves
// whole vectors of lanes.
BlockLanes lanes_of_rows(const Machine& machine, DType type, int64_t rows, int64_t block, const RowConfig& config);

// d_weight and d_bias of weight_partials and bias_partials, as far as they are wanted.
std::vector<PartialSums> layer_norm_sums(LayerNormGradients gradients, DType type, int64_t cols, bool accumulate);

using LayerNormBackward = ConfiguredKernel<LayerNormOptions, NormBackwardConfig>;
extern const LayerNormBackward layer_norm_backward_kernel, fused_add_layer_norm_backward_kernel;

}  // namespace ligerdsl::kernels
