#include "compiler/pipeline/tma_copies.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
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
  if (!tile.operand)
    return "the tile loaded at " + placeOf(load) + " has a use other than as operand of a dot";
  const tgpu::MemDescType slot = tiles.slotOf(tile);
  const int64_t rows = slot.getShape()[0];
  if (!slot.getSwizzle())
    return "the tile loaded at " + placeOf(load) + " has " + std::to_string(rows) + " rows of " +
           std::to_string(bufferBytes(slot) / rows) +
           " bytes, and TMA copies need multiples of 8 rows and of 32 bytes";
  std::string why = whyNoTensorTiles(tile.load.getView(), tile.load.getTileShape(), rows);
  if (!why.empty()) return why;
  if (ctas > 1 && rows % (ctas * Swizzle::kPeriod) != 0)
    return "each CTA has " + std::to_string(rows) + " rows of the tile loaded at " + placeOf(load) +
           ", and " + std::to_string(ctas) + " CTAs can share only a multiple of " +
           std::to_string(ctas * Swizzle::kPeriod);
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
  if (dotCount == 0) return "the loop has no dot, and TMA copies load only operands of dots";
  if (made.count() != dotCount)
    return "wgmma can compute " + std::to_string(made.count()) + " of the loop's " +
           std::to_string(dotCount) + " dots, and must compute all of them";
  if (made.mayOverlap() && slots < 3)
    return "TMA copies of a loop that only accumulates need 3 stages, and it has " +
           std::to_string(slots) + "; raise num_stages or use smaller tiles";
  const SmallVector<Operation*> around = LoopCarriedState::around(loop);
  if (pipeline && around.size() > 1)
    return "the copies would continue across the outer loop, which is itself in a loop";
  if (!llvm::all_of(around, llvm::IsaPred<scf::ForOp, scf::IfOp>))
    return "a while loop encloses the loop; use a counted loop";
  for (const LoadedTile& tile : tiles.ahead)
    if (std::string why = reasonNoTmaCopy(tile, tiles, ctas); !why.empty()) return why;
  return "";
}

}  // namespace ligerdsl::compiler
