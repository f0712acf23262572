// Elements of a tile moved along an axis (negative: counted from the end), and what is made of it: orders, the largest
// elements, pairs. Tiles hold values of any type, not pointers.
//
//   Tile  turned = flip(x);                          // the last first
//   Tile  last   = gather(x, k.arange(4) + (n - 4));  // four elements of n
//   Sorted best  = topk(x, 8);                        // values and where they stood
//
// On a GPU shuffle_xor costs registers and shuffles within a warp; between warps it takes a turn through shared memory,
// as do gather and flips of other sizes than powers of two. A sort of n elements is log2(n) (log2(n) + 1) / 2 moves;
// topk is log2(k) (log2(k) + 1) / 2 of the axis and log2(k) + 1 of each half of what is left.
#ifndef LIGERDSL_DSL_REARRANGE_H_
#define LIGERDSL_DSL_REARRANGE_H_

#include <utility>

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// Element i is x's element index[i] along the axis. The index, i32 or i64, has x's shape but for the axis, and the
// result has the index's. An index below 0 or beyond the axis gives the axis's last element.
Tile gather(const Tile& x, const Tile& index, int axis = -1, Loc loc = Here::current());

// Element i is x's element i ^ mask along the axis: partners at a distance of a power of two change places. The mask is
// less than the largest power of two that divides the axis's size. A mask of 0 gives x.
Tile shuffle_xor(const Tile& x, int64_t mask, int axis = -1, Loc loc = Here::current());

// The axis from its end to its beginning.
Tile flip(const Tile& x, int axis = -1, Loc loc = Here::current());

// Two tiles of one type as one with a last dimension of 2, and back.
Tile join(const Tile& a, const Tile& b, Loc loc = Here::current());
std::pair<Tile, Tile> split(const Tile& x, Loc loc = Here::current());
// a0, b0, a1, b1, ... along the last dimension, which becomes twice as long.
Tile interleave(const Tile& a, const Tile& b, Loc loc = Here::current());

// The axis in order, the smallest first; its size is a power of two. -0 is less than 0, and a NaN, which may become
// another NaN, larger than every number.
Tile sort(const Tile& x, int axis = -1, bool descending = false, Loc loc = Here::current());

// Elements and the indices (i32) along the axis that they had.
struct Sorted {
  Tile values, indices;
};
// The same with indices, of any type but i64; of equal elements the one that stood first comes first, descending too.
Sorted stable_sort(const Tile& x, int axis = -1, bool descending = false, Loc loc = Here::current());

// The k largest elements of the axis, the largest first, as stable_sort orders them; the axis becomes k. k and the
// axis's size are powers of two. Pad rows that end inside the block with the least number.
Sorted topk(const Tile& x, int64_t k, int axis = -1, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_REARRANGE_H_
