// The rewrites of planned loops, one per mechanism. Each reads the plan from the attributes
// (loop_plan.h) of the loop and of its loads.
#pragma once

#include "compiler/pipeline/loop_carried_state.h"

namespace ligerdsl::compiler {

/// Moves loads ahead; the loop carries their values (carry_loads.cpp).
void carryLoads(mlir::scf::ForOp loop);

/// Prefetches the next iteration's tiles to L2 at the top of the body (prefetch_tiles.cpp).
void prefetchTiles(mlir::scf::ForOp loop);

/// Fills a ring by copies of all threads (ring_by_threads.cpp). `wgmma` is true if the target has
/// it.
void fillRingByThreads(mlir::scf::ForOp loop, bool wgmma);

/// Fills a ring by TMA copies (ring_by_tma.cpp). Returns the replaced ops around the loop.
llvm::SmallVector<LoopCarriedState::Replaced> fillRingByTma(mlir::scf::ForOp loop, bool wgmma);

/// Fills a ring by either kind of copies, which continue across iterations of the outer loop
/// (ring_across_loops.cpp). Returns the replaced outer loop.
LoopCarriedState::Replaced fillRingAcrossLoops(mlir::scf::ForOp loop, bool wgmma);

}  // namespace ligerdsl::compiler
