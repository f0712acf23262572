// Functions that move a tile's elements along an axis: gather, shuffle, flip, join, split, sort,
// topk. A negative axis counts from the end. Tiles hold values of any type, not pointers.
//
//   Tile  reversed = flip(x);
//   Tile  last     = gather(x, k.arange(4) + (n - 4));  // the last four of n elements
//   Sorted best    = topk(x, 8);                        // values and their indices
//
// On a GPU, shuffle_xor exchanges values in registers, by warp shuffles within a warp, and through
// shared memory between warps. Shared memory also serves gather, and flip of a size that is no
// power of two. A sort of n elements takes log2(n) (log2(n) + 1) / 2 shuffles. topk takes log2(k)
// (log2(k) + 1) / 2 shuffles of the axis, and log2(k) + 1 shuffles each time that it halves the
// remaining elements.
#ifndef LIGERDSL_DSL_REARRANGE_H_
#define LIGERDSL_DSL_REARRANGE_H_

#include <utility>

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// Returns a tile whose element i is x's element index[i] along the axis. The index is i32 or i64.
// The result has the index's shape, which may differ from x's shape only along the axis. An index
// outside the axis selects the last element.
Tile gather(const Tile& x, const Tile& index, int axis = -1, Loc loc = Here::current());

// Returns a tile whose element i is x's element i ^ mask along the axis. The mask is less than the
// largest power of two that divides the axis's size. A mask of 0 returns x.
Tile shuffle_xor(const Tile& x, int64_t mask, int axis = -1, Loc loc = Here::current());

// Returns the elements in reverse order along the axis.
Tile flip(const Tile& x, int axis = -1, Loc loc = Here::current());

// join stacks a and b along a new last dimension of size 2. split returns a and b again.
Tile join(const Tile& a, const Tile& b, Loc loc = Here::current());
std::pair<Tile, Tile> split(const Tile& x, Loc loc = Here::current());
// Returns a0, b0, a1, b1, ... along the last dimension, which doubles.
Tile interleave(const Tile& a, const Tile& b, Loc loc = Here::current());

// Sorts the elements along the axis: the smallest first, or the largest first with `descending`.
// Accepts all types except fp8. The size of the axis is a power of two. -0 is less than 0, and a
// NaN is larger than every number. A NaN may become another NaN.
Tile sort(const Tile& x, int axis = -1, bool descending = false, Loc loc = Here::current());

// Sorted elements, and their original indices (i32) along the axis.
struct Sorted {
  Tile values, indices;
};
// Sorts like sort() and also returns the indices, for any type except i64 and fp8. Equal elements
// keep their order, also with `descending`.
Sorted stable_sort(const Tile& x, int axis = -1, bool descending = false,
                   Loc loc = Here::current());

// Returns the k largest elements of the axis, the largest first, in the order of a descending
// stable_sort. The result has size k along the axis. k and the size of the axis are powers of two.
// If a row ends inside the block, pad it with the smallest number.
Sorted topk(const Tile& x, int64_t k, int axis = -1, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_REARRANGE_H_
