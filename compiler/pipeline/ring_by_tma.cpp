// A ring that TMA copies fill. Each slot has an mbarrier, which is initialised only once and so
// must outlive the loop. The ring is allocated before the outermost loop, and the loops and
// branches around this one carry the slot and the parity. The ring is empty after the loop.
#include "compiler/pipeline/loop_rewrites.h"
#include "compiler/pipeline/loop_ring.h"

using namespace mlir;

namespace ligerdsl::compiler {

SmallVector<LoopCarriedState::Replaced> fillRingByTma(scf::ForOp loop, bool wgmma) {
  LoopRing ring(loop, wgmma);
  IRRewriter rewriter(loop);
  const SmallVector<Operation*> loops = LoopCarriedState::around(loop);
  if (!loops.empty()) rewriter.setInsertionPoint(loops.front());
  ring.create(rewriter);
  SmallVector<Value> inits = ring.firstPlace(rewriter);
  std::optional<LoopCarriedState> around;
  if (!loops.empty()) inits.assign(around.emplace(rewriter, loop, inits).values());

  Value iteration = loop.getLowerBound(), filled = inits[0];
  ring.fillOnce(rewriter, iteration);
  llvm::append_range(inits, ring.at.loadAt(rewriter, ring.small, iteration));
  for (int64_t slot = 0; slot < ring.slots - 1; ++slot) {
    if (slot > 0) iteration = ring.at.ahead(rewriter, iteration);
    if (slot > 0)
      filled = around ? ring.nextSlot(rewriter, filled, 1) : ring.number(rewriter, slot);
    ring.fill(rewriter, iteration, filled);
  }
  if (ring.onceRing)
    tgpu::RingAwaitOp::create(rewriter, loop.getLoc(), ring.onceRing, Value(), Value(),
                              rewriter.getI32IntegerAttr(0), /*for_wgmma=*/true);

  const unsigned own = loop.getNumResults();
  scf::ForOp replaced = ring.replaceLoop(
      rewriter, inits, [&](ArrayRef<BlockArgument> carried) { return ring.fetchNext(carried); });
  if (around) around->leave(replaced, replaced.getResults().slice(own, ring.placeValues()));
  rewriter.setInsertionPointAfter(replaced);
  ring.empty(rewriter, replaced->getLoc());
  ring.replaceDots();
  if (!around) return {};
  return SmallVector<LoopCarriedState::Replaced>(around->replaced());
}

}  // namespace ligerdsl::compiler
