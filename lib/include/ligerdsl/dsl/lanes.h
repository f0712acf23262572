// How the elements of a block are dealt to lanes, each of which keeps values of its own through a loop over a long row:
// no lane sees another's before they meet, once, behind the loop.
//
//   const BlockLanes lanes = block_lanes(k.target(), bf16, block, num_warps);
//   auto [most] = k.for_range(0, n, 1, carry(k.full(lanes.carried(), -INFINITY, f32)), [&](Scalar i, Tile most) {
//     return carry(max(most, lanes.reduce_max(lanes.deal(x.load({row, i}).to(f32)))));
//   });
//   Scalar all = reduce_max(most);
#ifndef LIGERDSL_DSL_LANES_H_
#define LIGERDSL_DSL_LANES_H_

#include <cstdint>

#include "ligerdsl/dsl/reduce.h"
#include "ligerdsl/dsl/target.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl {

// The CTAs of a cluster have equal stretches of the block, in which element ((f * lanes) + lane) * run + r is element
// (f, r) of its lane. On a GPU a lane is a thread and a run one vector of it, or one element where blocks do not begin
// at whole vectors; on a CPU, where lanes are what vectors hold, runs have one element.
struct BlockLanes {
  int64_t fold = 1;   // runs that a lane has in a block
  int64_t lanes = 1;  // of a CTA
  int64_t run = 1;    // neighbours in memory
  int64_t ctas = 1;   // of a cluster

  // Elements of the block.
  int64_t size() const { return ctas * fold * lanes * run; }
  // The block as lanes own it: [fold, lanes], with [..., run] and [ctas, ...] where those are not 1.
  Shape shape() const;
  // One value of each lane: [lanes], or [ctas, lanes].
  Shape carried() const;

  // A tile of size() elements, in any shape, to shape().
  Tile deal(const Tile& block, Loc loc = Here::current()) const;
  // Tiles of shape() to each lane's sum or largest value, of carried().
  Tile sum(const Tile& t, Loc loc = Here::current()) const;
  Tile reduce_max(const Tile& t, Loc loc = Here::current()) const;
  // The same with the lowest position in the block (i32) that has the value.
  Carry<Tile, Tile> max_with_index(const Tile& t, Loc loc = Here::current()) const;
  // The other way: a tile of carried(), to go with tiles of shape().
  Tile expand(const Tile& t, Loc loc = Here::current()) const;

  bool operator==(const BlockLanes&) const = default;

 private:
  int fold_axis() const { return ctas > 1 ? 1 : 0; }
  int run_axis() const { return fold_axis() + 2; }
};

// Lanes for blocks of a row of `type` that programs of so many warps and CTAs read. `aligned`: blocks begin at whole
// vectors (rows that do and blocks that divide them, or View::alignment_offset). Blocks had better be a multiple of
// num_ctas * num_warps * 32 vectors: of others there are more lanes than threads.
BlockLanes block_lanes(const Target& target, DType type, int64_t block, int num_warps, int num_ctas = 1,
                       bool aligned = true);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_LANES_H_
