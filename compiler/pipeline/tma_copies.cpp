#include "compiler/pipeline/tma_copies.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/sliced_view.h"
#include "compiler/layout/swizzle.h"
#include "compiler/pipeline/loop_carried_state.h"
#include "compiler/pipeline/wgmma_dots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

std::string reasonNoTmaCopy(LoadedTile tile, const LoopTiles& tiles, int64_t ctas) {
  const tile::LoadTileOp load = tile.load;
  if (!tile.operand || !tiles.slotOf(tile).getSwizzle())
    return "the tile loaded at " + placeOf(load) +
           " is not only an operand of dots, or has no swizzled rows";
  const int64_t rows = tiles.slotOf(tile).getShape()[0];
  std::string why = whyNoTensorTiles(tile.load.getView(), tile.load.getTileShape(), rows);
  if (!why.empty()) return why;
  if (ctas > 1 && rows % (ctas * Swizzle::kPeriod) != 0)
    return "the CTAs of the cluster cannot share the rows of the tile loaded at " + placeOf(load);
  auto kernel = tile.load->getParentOfType<func::FuncOp>();
  const MemoryAccess read = memoryAccess(load);
  Operation* writer = nullptr;
  kernel.walk([&](Operation* op) {
    if (op == kernel || !mayWriteTo(op, read)) return WalkResult::advance();
    writer = op;
    return WalkResult::interrupt();
  });
  if (writer)
    return "the op at " + placeOf(writer) +
           " may write what they read; promise that the arguments do not overlap (no_alias)";
  return "";
}

}  // namespace

std::string reasonNoTmaCopies(const PipelinedLoop& at, const LoopTiles& tiles, int64_t ctas,
                              int64_t slots, const OuterLoopPipeline* pipeline) {
  scf::ForOp loop = at.loop;
  const WgmmaDots made(loop, tiles, /*roundsF32=*/true);
  size_t dotCount = 0;  // includes dots in branches
  loop->walk([&](tile::DotOp) { ++dotCount; });
  if (made.empty() || made.count() != dotCount)
    return "wgmma cannot compute all dots of the loop from a B in shared memory";
  if (made.mayOverlap() && slots < 3) return "they need three stages or more";
  const SmallVector<Operation*> around = LoopCarriedState::around(loop);
  if (pipeline && around.size() > 1)
    return "the loop and the outer loop that its copies continue across are in a third loop";
  if (!llvm::all_of(around, llvm::IsaPred<scf::ForOp, scf::IfOp>))
    return "a loop around it is not a counted loop";
  for (const LoadedTile& tile : tiles.ahead)
    if (std::string why = reasonNoTmaCopy(tile, tiles, ctas); !why.empty()) return why;
  return "";
}

}  // namespace ligerdsl::compiler
