// Prefetch to L2: the loads stay, and the body begins with a prefetch of the next iteration's
// tiles.
#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/loop_rewrites.h"
#include "compiler/pipeline/pipelined_loop.h"

using namespace mlir;

namespace ligerdsl::compiler {

void prefetchTiles(scf::ForOp loop) {
  const LoopTiles tiles = takeTiles(loop);
  separateTransposes(tiles.ahead);
  const SmallVector<tile::LoadTileOp> loads = loadsOf(tiles.ahead);
  PipelinedLoop at{loop};
  OpBuilder builder = OpBuilder::atBlockBegin(loop.getBody());
  IRMapping mapping = at.indicesAt(builder, loads, at.ahead(builder, loop.getInductionVar()));
  for (tile::LoadTileOp load : loads) {
    if (!isa<RankedTensorType>(load.getType())) continue;
    SmallVector<Value> indices =
        llvm::map_to_vector(load.getIndices(), [&](Value v) { return mapping.lookupOrDefault(v); });
    tile::PrefetchTileOp::create(builder, load.getLoc(), load.getView(), indices,
                                 load.getTileShape());
  }
}

}  // namespace ligerdsl::compiler
