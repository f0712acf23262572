// Distribution of a block's elements to lanes. Each lane keeps its own partial results through a
// loop over a long row. The lanes exchange values once, after the loop.
//
//   const BlockLanes lanes = block_lanes(k.target(), bf16, block, num_warps);
//   Tile lowest = k.full(lanes.carried(), -INFINITY, f32);
//   auto [most] = k.for_range(0, n, 1, carry(lowest), [&](Scalar i, Tile most) {
//     return carry(max(most, lanes.reduce_max(lanes.distribute(x.load({row, i}).to(f32)))));
//   });
//   Scalar all = reduce_max(most);
#ifndef LIGERDSL_DSL_LANES_H_
#define LIGERDSL_DSL_LANES_H_

#include <cstdint>

#include "ligerdsl/dsl/reduce.h"
#include "ligerdsl/dsl/target.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl {

// Each CTA of a cluster has an equal segment of the block. Element ((f * lanes) + lane) * run + r
// of the segment is element (f, r) of lane `lane`. On a GPU a lane is a thread. A run is one vector
// of the thread, or one element if blocks are not aligned. On a CPU a lane is an element of a
// vector register, and a run is one element.
struct BlockLanes {
  int64_t fold = 1;   // runs per lane in a block
  int64_t lanes = 1;  // lanes per CTA
  int64_t run = 1;    // contiguous elements per run
  int64_t ctas = 1;   // CTAs per cluster

  // Returns the number of elements of the block.
  int64_t size() const { return ctas * fold * lanes * run; }
  // Returns the shape of a distributed block, [ctas, fold, lanes, run]. Omits ctas and run if they
  // are 1.
  Shape shape() const;
  // Returns the shape of one value per lane: [lanes], or [ctas, lanes] if ctas is not 1.
  Shape carried() const;

  // Reshapes a tile of size() elements, in any shape, to shape().
  Tile distribute(const Tile& block, Loc loc = Here::current()) const;
  // Old name of distribute(), for one release.
  Tile deal(const Tile& block, Loc loc = Here::current()) const { return distribute(block, loc); }
  // Return the sum or maximum of each lane. `t` has the shape shape(), and the result carried().
  Tile sum(const Tile& t, Loc loc = Here::current()) const;
  Tile reduce_max(const Tile& t, Loc loc = Here::current()) const;
  // Returns each lane's maximum, and the lowest position in the block (i32) with this value.
  Carry<Tile, Tile> max_with_index(const Tile& t, Loc loc = Here::current()) const;
  // Expands a tile with shape carried() so that it broadcasts to shape().
  Tile expand(const Tile& t, Loc loc = Here::current()) const;

  bool operator==(const BlockLanes&) const = default;

 private:
  int fold_axis() const { return ctas > 1 ? 1 : 0; }
  int run_axis() const { return fold_axis() + 2; }
};

// Returns the lanes for blocks of `type`, in programs with num_ctas CTAs of num_warps warps each.
// Set `aligned` if blocks begin at 16-byte boundaries: rows are aligned and blocks divide them, or
// loads use View::alignment_offset. Use blocks that are a multiple of num_ctas * num_warps * 32
// vectors. For other blocks the number of lanes may differ from the number of threads.
BlockLanes block_lanes(const Target& target, DType type, int64_t block, int num_warps,
                       int num_ctas = 1, bool aligned = true);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_LANES_H_
