// Prefetch to registers: each load becomes stages - 1 loads before the loop, one in the body for a
// later iteration, and a carried value in its place.
#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/loop_rewrites.h"
#include "compiler/pipeline/pipelined_loop.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Returns the last op before the body's first region that widens a loaded tile, or the first load
// if there is none. After it, the registers of this iteration's tiles can hold the next ones.
Operation* lastWidening(scf::ForOp loop, ArrayRef<tile::LoadTileOp> loads) {
  Operation* last = loads.front();
  for (Operation& op : loop.getBody()->without_terminator()) {
    if (op.getNumRegions()) break;
    if (!isa<arith::ExtFOp, tile::Fp8DecodeOp>(op)) continue;
    auto load = op.getOperand(0).getDefiningOp<tile::LoadTileOp>();
    if (load && llvm::is_contained(loads, load)) last = &op;
  }
  return last;
}

}  // namespace

void carryLoads(scf::ForOp loop) {
  const int64_t depth = planOf(loop)->stages - 1;
  const LoopTiles tiles = takeTiles(loop);
  separateTransposes(tiles.ahead);
  const SmallVector<tile::LoadTileOp> loads = loadsOf(tiles.ahead);
  PipelinedLoop at{loop};
  IRRewriter rewriter(loop);
  SmallVector<Value> inits;  // ordered by stage
  Value iteration = loop.getLowerBound();
  for (int64_t stage = 0; stage < depth; ++stage) {
    llvm::append_range(inits, at.loadAt(rewriter, loads, iteration));
    iteration = at.ahead(rewriter, iteration);
  }
  rewriter.setInsertionPointAfter(lastWidening(loop, loads));
  iteration = loop.getInductionVar();
  for (int64_t stage = 0; stage < depth; ++stage) iteration = at.ahead(rewriter, iteration);
  SmallVector<Value> fetched = at.loadAt(rewriter, loads, iteration);

  SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
  rewriter.setInsertionPoint(loop);
  SmallVector<BlockArgument> carried;
  auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
    carried.assign(arguments.begin(), arguments.end());
    SmallVector<Value> next(arguments.drop_front(loads.size()));
    llvm::append_range(next, fetched);
    return next;
  };
  auto replaced = loop.replaceWithAdditionalYields(rewriter, inits,
                                                   /*replaceInitOperandUsesInLoop=*/false, yields);
  (*replaced)->setDiscardableAttrs(attributes);
  for (auto [load, value] : llvm::zip_first(loads, carried)) rewriter.replaceOp(load, value);
}

}  // namespace ligerdsl::compiler
