// A ring that all threads fill by cp.async. The loop carries the slot number and the values of
// loads that are not staged. The ring is empty after the loop.
#include "compiler/pipeline/loop_rewrites.h"
#include "compiler/pipeline/loop_ring.h"

using namespace mlir;

namespace ligerdsl::compiler {

void fillRingByThreads(scf::ForOp loop, bool wgmma) {
  LoopRing ring(loop, wgmma);
  IRRewriter rewriter(loop);
  ring.create(rewriter);
  SmallVector<Value> inits = ring.firstPlace(rewriter);
  Value iteration = loop.getLowerBound();
  ring.fillOnce(rewriter, iteration);
  llvm::append_range(inits, ring.at.loadAt(rewriter, ring.small, iteration));
  for (int64_t slot = 0; slot < ring.slots - 1; ++slot) {
    if (slot > 0) iteration = ring.at.ahead(rewriter, iteration);
    ring.fill(rewriter, iteration, slot > 0 ? ring.number(rewriter, slot) : inits[0]);
  }
  if (ring.overlapping) ring.await(rewriter, loop.getLoc(), ring.slots - 2);

  scf::ForOp replaced = ring.replaceLoop(
      rewriter, inits, [&](ArrayRef<BlockArgument> carried) { return ring.fetchNext(carried); });
  rewriter.setInsertionPointAfter(replaced);
  ring.empty(rewriter, replaced->getLoc());
  ring.replaceDots();
}

}  // namespace ligerdsl::compiler
