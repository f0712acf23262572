// A ring whose copies (TMA or by threads) continue across iterations of the outer loop. Both loops
// carry the slot number and the state of the next iteration to fill.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/pipeline/loop_rewrites.h"
#include "compiler/pipeline/loop_ring.h"
#include "compiler/pipeline/outer_loop_pipeline.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Starts the copies of one iteration of both loops' combined pipeline.
void fill(LoopRing& ring, OpBuilder& builder, Value slot, OuterLoopPipeline& pipeline,
          ValueRange iteration) {
  const IRMapping values = pipeline.values(iteration);
  const auto views = llvm::map_to_vector(loadsOf(ring.parts), [&](tile::LoadTileOp load) {
    return pipeline.viewAt(builder, load.getView(), values);
  });
  ring.fill(builder, views, OuterLoopPipeline::counter(iteration), slot, values,
            ring.byTma() ? pipeline.isIteration(builder, iteration) : Value());
}

// Emits the body's copies and reads, as LoopRing::fetchNext does for one loop.
SmallVector<Value> fetchNext(LoopRing& ring, OuterLoopPipeline& pipeline,
                             ArrayRef<BlockArgument> carried) {
  scf::ForOp loop = ring.at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  const SmallVector<Value> place(carried.take_front(ring.placeValues())),
      iteration(carried.drop_front(ring.placeValues()));
  SmallVector<Value> yielded = ring.nextPlace(rewriter, place);
  Value slot = place[0];
  const bool overlapping = ring.overlapping;
  if (ring.byTma()) ring.awaitSlot(rewriter, place);
  if (overlapping) rewriter.setInsertionPointAfter(ring.dots->last());
  ring.await(rewriter, loop.getLoc(), overlapping ? ring.slots - 3 : ring.slots - 2);
  fill(ring, rewriter, ring.toBeFilled(rewriter, slot), pipeline, iteration);
  llvm::append_range(yielded, pipeline.next(rewriter, iteration));
  ring.readParts(rewriter, slot);
  return yielded;
}

}  // namespace

LoopCarriedState::Replaced fillRingAcrossLoops(scf::ForOp loop, bool wgmma) {
  LoopRing ring(loop, wgmma);
  std::string why;
  OuterLoopPipeline pipeline = *OuterLoopPipeline::around(ring.at, loadsOf(ring.tiles.ahead), why);
  Operation* before = pipeline.outer;
  IRRewriter rewriter(before);
  const Location loc = loop.getLoc();
  ring.create(rewriter);
  SmallVector<Value> iteration = pipeline.first(rewriter);
  for (int64_t slot = 0; slot < ring.slots - 1; ++slot) {
    fill(ring, rewriter, ring.number(rewriter, slot), pipeline, iteration);
    iteration = pipeline.next(rewriter, iteration);
  }
  if (ring.overlapping && !ring.byTma()) ring.await(rewriter, loc, ring.slots - 2);

  SmallVector<Value> inits = ring.firstPlace(rewriter);
  llvm::append_range(inits, iteration);
  SmallVector<NamedAttribute> attributes(pipeline.outer->getDiscardableAttrs());
  SmallVector<Value> carried;
  auto keep = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
    carried.assign(arguments.begin(), arguments.end());
    return carried;
  };
  pipeline.outer = cast<scf::ForOp>(*pipeline.outer.replaceWithAdditionalYields(
      rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, keep));
  pipeline.outer->setDiscardableAttrs(attributes);

  rewriter.setInsertionPoint(loop);
  scf::ForOp replaced = ring.replaceLoop(rewriter, carried, [&](ArrayRef<BlockArgument> arguments) {
    return fetchNext(ring, pipeline, arguments);
  });
  auto yield = cast<scf::YieldOp>(pipeline.outer.getBody()->getTerminator());
  for (auto [held, left] :
       llvm::zip_equal(carried, replaced.getResults().take_back(carried.size())))
    yield->replaceUsesOfWith(held, left);
  rewriter.setInsertionPointAfter(pipeline.outer);
  ring.empty(rewriter, loc);
  ring.replaceDots();
  pipeline.separateOwnIterations(replaced, ring.slots - 1);
  pipeline.outer->setAttr(kTilesAttr, rewriter.getUnitAttr());
  return {before, pipeline.outer};
}

}  // namespace ligerdsl::compiler
