// tile-set-eviction-policy
//
// Of kernels that write as much as they read, what is read leaves the second-level cache last (evict = large): the
// cache then gives up written lines early and in the order of the writes. On an H200 kernels one after the other gain 1
// to 4 %, those between them lose nothing (bench/results/notes.md). A load takes part if its tile
//   * is the program's own, at a place that is known without reading memory: what all programs read stays anyway, and
//     rows that indices pick lost 2 %,
//   * is as large as one that the kernel stores, or up to four times smaller: statistics and tables are not worth it,
//     and a kernel that only reads gains nothing,
//   * has no hint of the author.
// Rows of a persistent loop gained nothing, and copies by cp.async cannot say it: ptxas 13.0 assembles them with the
// hint to instructions that the GPU refuses.
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/rewrites/program_loop.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kMostTimesSmaller = 4;

int64_t bytesOf(tile::ViewType view, ArrayRef<int64_t> tileShape) {
  int64_t bytes = view.getElementBytes();
  for (int64_t size : tile::resultShape(tileShape)) bytes *= size;
  return bytes;
}

bool isHinted(tile::LoadTileOp load) {
  return load.getEvict() != tile::EvictHint::normal || load.getCache() != tile::CacheHint::normal;
}

class TileSetEvictionPolicyPass : public PassWrapper<TileSetEvictionPolicyPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileSetEvictionPolicyPass)
  StringRef getArgument() const override { return "tile-set-eviction-policy"; }
  StringRef getDescription() const override { return "Let what is read leave the second-level cache last"; }

  void runOnOperation() override {
    SmallVector<int64_t> stored;
    getOperation().walk(
        [&](tile::StoreTileOp store) { stored.push_back(bytesOf(store.getView().getType(), store.getTileShape())); });
    getOperation().walk([&](tile::LoadTileOp load) {
      const int64_t bytes = bytesOf(load.getView().getType(), load.getTileShape());
      const bool isWritten =
          llvm::any_of(stored, [&](int64_t size) { return size >= bytes && size <= kMostTimesSmaller * bytes; });
      const IndexOrigin origin = originOf(load.getIndices());
      if (!isWritten || !origin.program || isHinted(load)) return;
      if (origin.memory)
        missed(load, "tile-set-eviction-policy")
            << "no eviction policy for the second-level cache: its place is read from memory";
      else
        load.setEvict(tile::EvictHint::large);
    });
  }
};

}  // namespace

std::unique_ptr<Pass> createTileSetEvictionPolicyPass() {
  return std::make_unique<TileSetEvictionPolicyPass>();
}

}  // namespace ligerdsl::compiler
