// GroupNorm: LayerNorm over groups of channels, with a weight and a bias per channel.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/norm/layer_norm.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// x is [n, C, S], with the S positions of a channel contiguous. The C / G channels of a group form
// one row.
struct GroupNormOptions {
  int64_t channels = 320;    // C
  int64_t groups = 32;       // G, divides C
  int64_t positions = 4096;  // S
  DType type = f32;          // dtype of x, y and their gradients
  DType weight_type = f32;   // dtype of weight and bias

  bool with_mean = true, with_rstd = true;  // forward: write mean, rstd
  bool without_bias = false;                // forward

  bool want_d_weight = true;  // backward: compute the parameter gradients that `gradients` names
  LayerNormGradients gradients = LayerNormGradients::both;
  DType d_weight_type = f32;  // dtype of d_weight and d_bias: f32 or weight_type
  bool accumulate = false;    // d_weight += ..., d_bias += ...; f32 only
  bool without_d_x = false;   // backward: compute only the parameter gradients

  int64_t channels_of_group() const { return channels / groups; }
  int64_t row() const { return channels_of_group() * positions; }  // elements of a group

  template <class V>
  void visit(V&& v) {
    v("channels", channels);
    v("groups", groups);
    v("positions", positions);
    v("type", type);
    v("weight_type", weight_type);
    v("with_mean", with_mean);
    v("with_rstd", with_rstd);
    v("without_bias", without_bias);
    v("want_d_weight", want_d_weight);
    v("gradients", gradients, {"both", "weight", "bias"});
    v("d_weight_type", d_weight_type);
    v("accumulate", accumulate);
    v("without_d_x", without_d_x);
  }
};

struct GroupNormMeta : GroupNormOptions {
  // Groups per tile, and the number of their batches. A tile has some groups of one batch, or all
  // groups of `batches` batches.
  int64_t rows = 1, batches = 1;

  // Forward:
  int64_t cols = 0;      // row()
  int64_t block = 4096;  // elements of a row per tile: all of them unless `looped`
  BlockLanes lanes;      // distribution of a tile's row over lanes
  bool looped = false;   // long rows: a program makes two passes over blocks of its row

  int64_t parts = 1;  // parts per group; if above 1, a first launch reduces one part per program

  int64_t channel_width =
      0;  // elements per block of a channel; 0: results are not stored channel by channel

  // Backward: channels of each group and positions of each channel per tile. If channels have one
  // position, position_block counts channels.
  int64_t channel_block = 1, position_block = 1;
  bool late_sums = false;      // reduce each element over batches in the loop, then over positions
  int64_t position_parts = 1;  // parts of a channel's positions; a program reduces one part
  bool own_means = false;      // the kernel of d_x computes the means itself
  int stages = 1;              // pipeline stages; 2 loads the next iteration's batches early

  int64_t group_block() const { return rows / batches; }
};

// x, y, d_y and d_x may have any stride between batches; within a batch they are contiguous. The
// f32 tensors mean and rstd [n G] are ordered by batch, then by group. The dtype of weight and bias
// [C] is weight_type; eps is an f32 scalar.
//
// Arguments: y, x [n, G, (C / G) S] type, weight, [bias], [mean], [rstd], eps.
void group_norm_forward(KernelBuilder& k, const GroupNormMeta& m);

// First of the forward's two launches: a program reduces one part of a group. All part_* are [n G
// parts] f32.
//
// Arguments: x, part_total, part_shift, part_low, part_squares.
void group_norm_statistics(KernelBuilder& k, const GroupNormMeta& m);
// Second of the two launches: stores the results. Arguments: y, x, weight, [bias], [mean], [rstd],
// eps, part_total, part_shift, part_low, part_squares.
void group_norm_normalise(KernelBuilder& k, const GroupNormMeta& m);

// Backward. d_x, d_y and x are [n, G, C / G, S], or [n, G, 1, C / G] if S is 1.
//
// Arguments: d_x, [weight_partials], [bias_partials], d_y, x, weight, mean, rstd. d_x may be
// exactly d_y. The partials [parts, C] f32 are the partial sums of d_weight and d_bias.
void group_norm_backward(KernelBuilder& k, const GroupNormMeta& m);

// Backward by channels, for groups that are too large for one program, or without d_x.
//
// Computes the partial sums. If d_x is wanted, there is one row per position part of each batch.
// Arguments: [weight_partials], [bias_partials], d_y, and for d_weight x, mean, rstd.
void group_norm_sums(KernelBuilder& k, const GroupNormMeta& m);
// Computes each group's means, which d_x needs, from its batch's partial sums. Arguments: mean_nq,
// mean_q [n G] f32, weight_partials, bias_partials, weight.
void group_norm_means(KernelBuilder& k, const GroupNormMeta& m);
// Arguments: d_x, d_y, x, weight, mean, rstd; with own_means weight_partials and bias_partials,
// otherwise mean_nq and mean_q. d_x may be exactly d_y.
void group_norm_d_x(KernelBuilder& k, const GroupNormMeta& m);

// Returns true if a tile can have n elements: the odd factor of n must be at most 31.
bool is_tile_size(int64_t n);

// Rows: batches, n. The backward has the scratch "weight_partials", "bias_partials", "mean_nq" and
// "mean_q". d_weight and d_bias are arguments of its last launch.
Operation group_norm_forward(const Machine& machine, const GroupNormOptions& options);
Operation group_norm_backward(const Machine& machine, const GroupNormOptions& options);

// `rows`: groups per tile. If a tile has all groups of its batches, the odd factor of G is left
// out: with G = 24, rows=16 means the 48 groups of two batches.
struct GroupNormForwardConfig : RowConfig {
  // Groups that no cluster holds may use two launches. In the first, `parts` programs reduce a
  // group; in the second, each thread has `part_vectors` vectors of the result.
  int parts = 1;         // 1: one launch
  int part_vectors = 0;  // 16-byte vectors per thread; 0 if parts is 1

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v, Bits::row);
    v("parts", parts, powers_of_two(1, 1024), Bits::batch);
    v("part_vectors", part_vectors, choices({0, 1, 2, 4, 8}), Bits::same);
  }
};
using GroupNormForward = ConfiguredKernel<GroupNormOptions, GroupNormForwardConfig>;
extern const GroupNormForward group_norm_forward_kernel;

// Kernel that reduces dy n and dy over each channel.
enum class GroupNormBackwardBy {
  groups,    // the kernel of d_x; its programs hold whole groups and read them once
  channels,  // a separate kernel; the kernel of d_x reads the groups again
};

struct GroupNormBackwardConfig {
  GroupNormBackwardBy by = GroupNormBackwardBy::groups;
  int rows = 1;  // groups per tile, as in the forward; by=channels: batches per tile
  int num_warps = 16;
  int vectors = 0;          // by=channels: 16-byte vectors per thread and tile
  int num_ctas = 1;         // CTAs per cluster, which share each group
  int stages = 1;           // tiles in use or in flight
  int programs_per_sm = 1;  // programs per SM, each with its own partial sums
  bool late_sums = false;   // reduce each element over batches first, then over positions
  int min_ctas_per_sm = 0;  // 0: no minimum
  int tiles_per_program =
      0;  // by=channels: tiles of positions per program; 0: all tiles of a channel

  template <class V>
  void visit(V&& v) {
    v("by", by, {"groups", "channels"}, Bits::batch);
    v("rows", rows, powers_of_two(1, 8192), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 4, 8}), Bits::batch);
    v("num_ctas", num_ctas, powers_of_two(1, 16), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("programs_per_sm", programs_per_sm, choices({1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("late_sums", late_sums, Bits::batch);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4}), Bits::same);
    v("tiles_per_program", tiles_per_program, choices({0, 1, 2, 4, 8, 16, 32}), Bits::batch);
  }
};

using GroupNormBackward = ConfiguredKernel<GroupNormOptions, GroupNormBackwardConfig>;
extern const GroupNormBackward group_norm_backward_kernel;

}  // namespace ligerdsl::kernels
