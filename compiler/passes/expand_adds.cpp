// tile-expand-adds
//
// A store that adds to memory becomes a load of the same tile, an addition and a store. If
// `memoryAdds` is set, stores of f32 tiles without an alignment offset stay, because the target has
// an instruction that adds to memory.
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEEXPANDADDSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

void expand(tile::StoreTileOp store) {
  OpBuilder b(store);
  const Location loc = store.getLoc();
  const Type type = store.getValue().getType();
  Value before = tile::LoadTileOp::create(
      b, loc, type, store.getView(), store.getIndices(), store.getAlignmentOffset(),
      store.getTileShape(), TypedAttr(), store.getCache(), store.getEvict(), IntegerAttr());
  Value sum = isa<FloatType>(getElementTypeOrSelf(type))
                  ? Value(arith::AddFOp::create(b, loc, before, store.getValue()))
                  : Value(arith::AddIOp::create(b, loc, before, store.getValue()));
  store.getValueMutable().assign(sum);
  store.setAdds(false);
}

class TileExpandAddsPass : public impl::TileExpandAddsPassBase<TileExpandAddsPass> {
 public:
  using TileExpandAddsPassBase::TileExpandAddsPassBase;

  void runOnOperation() override {
    getOperation().walk([&](tile::StoreTileOp store) {
      auto tensor = dyn_cast<RankedTensorType>(store.getValue().getType());
      const bool kept =
          memoryAdds && tensor && tensor.getElementType().isF32() && !store.getAlignmentOffset();
      if (store.getAdds() && !kept) expand(store);
    });
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
