// tile-set-eviction-policy
//
// In kernels that write about as much as they read, loaded lines leave L2 last (evict = large,
// without effect on views that fit in L2). L2 then evicts written lines early, in the order of the
// writes. Consecutive launches gain, and other kernels between them lose nothing
// (docs/design/decisions/004 has the measurements). A load gets the policy if its tile fulfils all
// conditions:
//   * Only its program reads it, at an index that does not come from memory. Tiles that all
//     programs read stay in L2 anyway, and loads of rows at loaded indices become slower.
//   * It has at most the size of a tile that the kernel stores, and at least a quarter of it.
//     Statistics and tables gain too little, and a kernel that only reads gains nothing.
//   * The author gave it no hint.
// Rows of a persistent loop gain nothing. cp.async cannot have the hint: ptxas 13.0 assembles it to
// instructions that the GPU rejects.
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/resident/program_loop.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILESETEVICTIONPOLICYPASS
#include "compiler/passes/Passes.h.inc"

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

class TileSetEvictionPolicyPass
    : public impl::TileSetEvictionPolicyPassBase<TileSetEvictionPolicyPass> {
 public:
  using TileSetEvictionPolicyPassBase::TileSetEvictionPolicyPassBase;

  void runOnOperation() override {
    SmallVector<int64_t> stored;
    getOperation().walk([&](tile::StoreTileOp store) {
      stored.push_back(bytesOf(store.getView().getType(), store.getTileShape()));
    });
    getOperation().walk([&](tile::LoadTileOp load) {
      const int64_t bytes = bytesOf(load.getView().getType(), load.getTileShape());
      const bool isWritten = llvm::any_of(
          stored, [&](int64_t size) { return size >= bytes && size <= kMostTimesSmaller * bytes; });
      const IndexOrigin origin = originOf(load.getIndices());
      if (!isWritten || !origin.program || isHinted(load)) return;
      if (origin.memory)
        missed(load, RemarkId::no_eviction_policy)
            << "the load gets no L2 eviction policy: its index comes from memory";
      else
        load.setEvict(tile::EvictHint::large);
    });
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
