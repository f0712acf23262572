// tile-prefetch-loads
//
// In a loop with num_stages >= 2 (its own attribute, else the compile option), loads are issued
// num_stages - 1 iterations before their use. Until then the values are in registers or in shared
// memory. So memory stays busy while an iteration computes.
//
// The pass visits the loops in order, because rings of earlier loops leave less shared memory for
// later ones. It plans a loop (pipeline/loop_planner.h) and writes the plan as attributes
// (pipeline/README.md). Only then, one of the rewrites of pipeline/loop_rewrites.h changes the
// loop.
//
// The plan:
//
//   1. A load_tile in the loop's body qualifies if its indices are pure functions of the induction
//      variable and of values from outside. No store of the loop may write the memory that it reads
//      ahead (rule S in pipeline/load_reach.cpp).
//   2. Carried values may fill only a part of the registers (carriedBudget). If they would fill
//      more, fewer iterations are in flight.
//   3. Registers: each qualifying load becomes num_stages - 1 loads before the loop, one in the
//      body for the iteration num_stages - 1 ahead, and a carried value in place of the load.
//   4. Ring: if carried values would leave few registers, or rows have alignment offsets, tiles of
//      whole vectors are staged in a tgpu.ring.
//      * Each thread copies its part of a tile to a slot ahead of time and reads it there, possibly
//        more than once.
//      * The ring has num_stages slots, or fewer if memory is short, and at least two. A load that
//        cannot be staged is issued one iteration ahead. In a cluster a slot holds the CTA's part
//        of a tile.
//      * Copies start before the body's first reduction, where warps wait for each other anyway. At
//        the top they would delay the iteration's own reads of shared memory, because both use one
//        queue.
//      * Copies start at the top if there is no reduction, if carried values leave no registers for
//        addresses (GpuTuning), if dots read the ring, and in clusters.
//   5. Operands of matmuls, which threads share, are staged whenever two iterations fit.
//      * All threads copy them, synchronise, and read them in the dot's layout. ldmatrix reads
//        swizzled rows, or wgmma reads the slots themselves (pipeline/wgmma_dots.h).
//      * If wgmmas may stay in flight across iterations, an iteration starts with its wgmmas.
//        Otherwise the wait for a dot is at the first reader of its accumulator.
//      * If the loop requests TMA copies and only wgmma reads the tiles, one thread copies whole
//        tiles. Each slot has an mbarrier. Nothing is copied for iterations that the loop does not
//        have.
//      * If such a loop is in the body of another loop, as in a persistent kernel, its copies
//        continue across iterations of that loop (pipeline/outer_loop_pipeline.h). They arrive
//        while the accumulator is stored.
//      * A tile may be the same in all iterations but loaded in each for lack of registers. It is
//        copied once if it is the A of a dot and leaves room for two stages. In a cluster, any such
//        tile is copied once if it fits in addition to all stages. Other tiles of a single CTA are
//        not, because that would not be faster.
//      * Rings of consecutive loops may share memory, because each is empty after its loop
//        (tgpu-allocate-shared). A ring that continues across outer iterations is not empty. So
//        copies continue only if later loops also have room for their rings.
//   6. Prefetch: if shared memory is too small as well, the loads stay. The body begins with a
//      prefetch of the next iteration's tiles to L2 (prefetch_tile).
//
// Loads past the loop's end read tiles that nothing uses. Outside the view they read no memory,
// because every index that is not a constant is tested against the view's bounds.
//
// Remarks report each load that does not qualify, each loop with fewer stages than requested, and
// each dot that tensor cores compute without wgmma (analysis/wgmma_choice.h).
#include "compiler/analysis/thread_registers.h"
#include "compiler/analysis/wgmma_choice.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/pipeline/loop_planner.h"
#include "compiler/pipeline/loop_rewrites.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEPREFETCHLOADSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

using Replaced = LoopCarriedState::Replaced;

// Rewrites a planned loop. Returns the replaced ops around it.
SmallVector<Replaced> rewrite(scf::ForOp loop, bool wgmma) {
  const std::optional<LoopPlan> plan = planOf(loop);
  if (!plan) return {};
  switch (plan->mechanism) {
    case Mechanism::registers:
      return carryLoads(loop), SmallVector<Replaced>();
    case Mechanism::prefetch:
      return prefetchTiles(loop), SmallVector<Replaced>();
    case Mechanism::ring:
      if (plan->acrossLoops) return {fillRingAcrossLoops(loop, wgmma)};
      if (plan->copies == Copies::tma) return fillRingByTma(loop, wgmma);
      return fillRingByThreads(loop, wgmma), SmallVector<Replaced>();
  }
  llvm_unreachable("a mechanism without a rewrite");
}

class TilePrefetchLoadsPass : public impl::TilePrefetchLoadsPassBase<TilePrefetchLoadsPass> {
 public:
  using TilePrefetchLoadsPassBase::TilePrefetchLoadsPassBase;

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    const int64_t threads = program::kWarpThreads * int64_t{numWarps};
    const int64_t registers = arch->register_bytes(threads * ctasPerSm);
    const LoopPlanner::Target target{*arch,     threads,     numCtas,
                                     registers, sharedBytes, leastForExchanges};
    const Dots reported = arch->wgmma ? remarkDots() : Dots();
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (size_t i = 0; i < loops.size(); ++i) {
      auto own = loops[i]->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      const int64_t stages = own ? own.getInt() : int64_t{numStages};
      if (failed(LoopPlanner(loops[i], stages, target, reported).plan()))
        return signalPassFailure();
      if (planOnly) continue;
      for (const Replaced& around : rewrite(loops[i], arch->wgmma))
        std::replace_if(
            loops.begin() + i, loops.end(),
            [&](scf::ForOp other) { return other.getOperation() == around.before; },
            dyn_cast<scf::ForOp>(around.now));
    }
  }

 private:
  // Emits a remark on each dot that tensor cores compute but wgmma cannot, whatever its loop
  // stages. Returns these dots.
  Dots remarkDots() {
    const Threads threads{numWarps, numCtas};
    Dots found;
    getOperation().walk([&](tile::DotOp dot) {
      if (!reasonNoTensorCores(dot, threads).empty()) return;
      const std::string why = reasonNoWgmma(dot, threads);
      remarkNoWgmma(dot, why);
      if (!why.empty()) found.insert(dot);
    });
    return found;
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
