// Plan of a pipelined loop: how its loads are issued ahead. loop_planner.h writes it as attributes
// before the IR changes; the rewrites of loop_rewrites.h read it.
#pragma once

#include <optional>

#include "compiler/pipeline/loop_tiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ligerdsl::compiler {

/// Place of the tiles between load and use.
enum class Mechanism {
  registers,  // the loop carries the values
  ring,       // copies fill the slots of a ring
  prefetch,   // the next iteration's tiles are in L2
};

/// Kind of copies that fill a ring: each thread copies at least one 16-byte vector of a tile, or
/// one thread issues TMA copies of whole tiles.
enum class Copies { threads, tma };

struct LoopPlan {
  Mechanism mechanism = Mechanism::prefetch;
  int64_t stages = 2;  // iterations whose tiles are loaded or in flight, including the current one
  // For rings only:
  Copies copies = Copies::threads;
  bool copiesFirst = false;  // copies start at the top of the body, not before a reduction
  bool acrossLoops = false;  // copies continue across iterations of the outer loop
};

/// Writes the plan's attributes on the loop, on its loads, and on the conversions of `tiles`.
void writePlan(mlir::scf::ForOp loop, const LoopPlan& plan, const LoopTiles& tiles);

/// Returns the plan of a loop, or nothing if it has none because its loads stay.
std::optional<LoopPlan> planOf(mlir::scf::ForOp loop);

/// Removes the plan's attributes from a loop's loads and conversions. Otherwise these loads would
/// differ from identical loads elsewhere. Returns the loop's tiles.
LoopTiles takeTiles(mlir::scf::ForOp loop);

/// Removes all attributes of a plan.
void erasePlan(mlir::scf::ForOp loop);

/// Returns the layout conversions of `load` or of its transpose, in the order of the users.
llvm::SmallVector<tgpu::ConvertLayoutOp> conversionsOf(tile::LoadTileOp load);

}  // namespace ligerdsl::compiler
