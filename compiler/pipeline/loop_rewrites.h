// The rewrites of planned loops, one per mechanism. Each reads the plan from the attributes
// (loop_plan.h) of the loop and of its loads.
#pragma once

#include "compiler/pipeline/loop_carried_state.h"

namespace ligerdsl::compiler {

/// Loads move ahead, and the loop carries their values (carry_loads.cpp).
void carryLoads(mlir::scf::ForOp loop);

/// The body begins with a prefetch of the next iteration's tiles to L2 (prefetch_tiles.cpp).
void prefetchTiles(mlir::scf::ForOp loop);

/// Copies of all threads fill a ring (ring_by_threads.cpp). `wgmma`: the target has it.
void fillRingByThreads(mlir::scf::ForOp loop, bool wgmma);

/// TMA copies fill a ring (ring_by_tma.cpp). Returns the ops around the loop that were replaced.
llvm::SmallVector<LoopCarriedState::Replaced> fillRingByTma(mlir::scf::ForOp loop, bool wgmma);

/// Copies of either kind fill a ring, and continue across iterations of the outer loop
/// (ring_across_loops.cpp). Returns the outer loop, which is replaced.
LoopCarriedState::Replaced fillRingAcrossLoops(mlir::scf::ForOp loop, bool wgmma);

}  // namespace ligerdsl::compiler
