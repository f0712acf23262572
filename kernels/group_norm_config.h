// The schedules of GroupNorm.
#pragma once

#include "kernels/config.h"
#include "kernels/group_norm.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

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
