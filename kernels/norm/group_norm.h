// GroupNorm: LayerNorm over groups of channels, with a weight and a bias of each channel.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "kernels/norm/layer_norm.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Of x [n, C, S], S positions of each channel one after the other, the C / G channels of a group are one row.
struct GroupNormOptions {
  int64_t channels = 320;    // C
  int64_t groups = 32;       // G, divides C
  int64_t positions = 4096;  // S
  DType type = f32;          // of x, y and their gradients
  DType weight_type = f32;   // of weight and bias

  bool with_mean = true, with_rstd = true;  // forward: write them
  bool without_bias = false;                // forward

  bool want_d_weight = true;  // backward: d_weight and d_bias, or one of them
  LayerNormGradients gradients = LayerNormGradients::both;
  DType d_weight_type = f32;  // of both: f32 or weight_type
  bool accumulate = false;    // d_weight += ..., d_bias += ...; f32 only
  bool without_d_x = false;   // backward: d_weight and d_bias, or one of them, alone

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
  // Groups of a tile: some of one batch's, or all of `batches` of them.
  int64_t rows = 1, batches = 1;

  // Forward:
  int64_t cols = 0;      // row()
  int64_t block = 4096;  // of a row's elements: all of them unless `looped`
  BlockLanes lanes;      // how a row of a tile is dealt
  bool looped = false;   // longer rows: a program makes two passes over blocks of its row

  int64_t parts = 1;  // of a group, in two launches: each is a block of the first one

  int64_t channel_width = 0;  // not 0: results are made channel by channel, in blocks of so many of its elements

  // Backward: a tile has so many channels of each group, and positions of them; where channels have one position, those are
  // the channels.
  int64_t channel_block = 1, position_block = 1;
  bool late_sums = false;      // a program adds up each element over its batches, and positions at the end
  int64_t position_parts = 1;  // of a batch's channels, each a program's sums
  bool own_means = false;      // d_x makes the means itself
  int stages = 1;              // loads in flight: 2 reads the next batches while these are worked on

  int64_t group_block() const { return rows / batches; }
};

// x, y, d_y and d_x have any stride between batches; within one, channels follow each other. mean and rstd [n G] f32 are of
// the groups of the first batch, then of the next one; weight, bias [C] weight_type; eps f32 scalar.
//
// Arguments: y, x [n, G, C / G S] type, weight, [bias], [mean], [rstd], eps.
void group_norm_forward(KernelBuilder& k, const GroupNormMeta& m);

// The same by parts of groups, each a program's, in two launches; all part_* [n G parts] f32.
//
// Arguments: x, part_total, part_shift, part_low, part_squares.
void group_norm_statistics(KernelBuilder& k, const GroupNormMeta& m);
// Arguments: y, x, weight, [bias], [mean], [rstd], eps, part_total, part_shift, part_low, part_squares.
void group_norm_normalise(KernelBuilder& k, const GroupNormMeta& m);

// What follows is the backward; there d_x, d_y and x are [n, G, C / G, S], or [n, G, 1, C / G] where S is 1.
//
// Arguments: d_x, [weight_partials], [bias_partials], d_y, x, weight, mean, rstd. d_x may be exactly d_y. The partials [parts, C] f32 are every program's parts of d_weight and
// d_bias.
void group_norm_backward(KernelBuilder& k, const GroupNormMeta& m);

// Of groups that no program holds, by channels.
//
// The partials, a row for each part of each batch. Arguments: [weight_partials], [bias_partials], d_y, and for d_weight x, mean, rstd.
void group_norm_sums(KernelBuilder& k, const GroupNormMeta& m);
// What d_x needs of each group, from partials of each batch. Arguments: mean_nq, mean_q [n G] f32, weight_partials,
// bias_partials, weight.
void group_norm_means(KernelBuilder& k, const GroupNormMeta& m);
// Arguments: d_x, d_y, x, weight, mean, rstd, and mean_nq, mean_q or the partials. d_x may be exactly d_y.
void group_norm_d_x(KernelBuilder& k, const GroupNormMeta& m);

// Whether a tile can have this size.
bool is_tile_size(int64_t n);

// Rows: batches, n. The backward's d_weight and d_bias are arguments of its last launch; its scratch is "weight_partials",
// "bias_partials", "mean_nq" and "mean_q".
Operation group_norm_forward(const Machine& machine, const GroupNormOptions& options);
Operation group_norm_backward(const Machine& machine, const GroupNormOptions& options);

// `rows`: groups of a tile. Where it has all groups of a batch, and their number an odd factor, so many times that.
struct GroupNormForwardConfig : RowConfig {
  // Groups that no cluster keeps may take two launches: `parts` programs add up a group, and others have a tile of
  // `part_vectors` a thread of the result.
  int parts = 1;         // 1: one launch
  int part_vectors = 0;  // of 16 bytes; 0 where parts is 1

  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v, Bits::row);
    v("parts", parts, powers_of_two(1, 1024), Bits::batch);
    v("part_vectors", part_vectors, choices({0, 1, 2, 4, 8}), Bits::same);
  }
};
using GroupNormForward = ConfiguredKernel<GroupNormOptions, GroupNormForwardConfig>;
extern const GroupNormForward group_norm_forward_kernel;

// Who makes the sums of each channel.
enum class GroupNormBackwardBy {
  groups,    // programs that hold whole groups, which read them once
  channels,  // a kernel of its own; another one reads them again for d_x
};

struct GroupNormBackwardConfig {
  GroupNormBackwardBy by = GroupNormBackwardBy::groups;
  int rows = 1;  // of a tile: groups, as in the forward; by=channels: batches
  int num_warps = 16;
  int vectors = 0;          // by=channels: of 16 bytes that a thread has of a tile
  int num_ctas = 1;         // that share groups
  int stages = 1;           // tiles under way: the one at work and those on their way
  int programs_per_sm = 1;  // that each keep partial sums
  bool late_sums = false;   // each element's sums over batches first, those over positions last
  int min_ctas_per_sm = 0;  // 0: no floor
  int turns = 0;            // by=channels: tiles of positions that a program adds up; 0: all of a channel

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
    v("turns", turns, choices({0, 1, 2, 4, 8, 16, 32}), Bits::batch);
  }
};

using GroupNormBackward = ConfiguredKernel<GroupNormOptions, GroupNormBackwardConfig>;
extern const GroupNormBackward group_norm_backward_kernel;

}  // namespace ligerdsl::kernels
