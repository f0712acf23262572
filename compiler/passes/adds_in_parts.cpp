// tile-adds-in-parts
//
// How tiles are added to memory. What memory holds of a small tile is loaded as a whole, so that all of its loads are under way
// together. Beside a large one of a product's sums that takes all registers of a thread and more; its loads and stores take turns.
//
//   1. A store of load_tile + x to the tile's own place, x large and of f32, becomes a store of x that adds.
//   2. Other stores that add become a load, an addition and a store.
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "program/options.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kLarge = 32;  // more elements of a thread than these

void expand(tile::StoreTileOp store) {
  OpBuilder b(store);
  const Location loc = store.getLoc();
  const Type type = store.getValue().getType();
  Value before =
      tile::LoadTileOp::create(b, loc, type, store.getView(), store.getIndices(), store.getAlignmentOffset(),
                               store.getTileShape(), TypedAttr(), store.getCache(), store.getEvict(), IntegerAttr());
  Value sum = isa<FloatType>(getElementTypeOrSelf(type))
                  ? Value(arith::AddFOp::create(b, loc, before, store.getValue()))
                  : Value(arith::AddIOp::create(b, loc, before, store.getValue()));
  store.getValueMutable().assign(sum);
  store.setAdds(false);
}

// The load, of one of the sum's terms, of what is stored over; null where there is none that only the sum reads.
tile::LoadTileOp loadOfItsPlace(tile::StoreTileOp store, Value term) {
  auto load = term.getDefiningOp<tile::LoadTileOp>();
  const bool same = load && load->hasOneUse() && load->getBlock() == store->getBlock() &&
                    load.getView() == store.getView() && load.getIndices() == store.getIndices() &&
                    load.getTileShape() == store.getTileShape() && !load.getResident();
  if (!same) return {};
  for (Operation* op = load->getNextNode(); op != store; op = op->getNextNode())
    if (!isMemoryEffectFree(op) && !isa<tile::LoadTileOp>(op)) return {};
  return load;
}

void contract(tile::StoreTileOp store) {
  auto sum = store.getValue().getDefiningOp<arith::AddFOp>();
  if (store.getAdds() || !sum || !sum->hasOneUse()) return;
  for (const bool second : {false, true}) {
    tile::LoadTileOp load = loadOfItsPlace(store, sum->getOperand(second));
    if (!load) continue;
    store.getValueMutable().assign(sum->getOperand(!second));
    store.setAdds(true);
    sum.erase();
    load.erase();
    return;
  }
}

class TileAddsInPartsPass : public PassWrapper<TileAddsInPartsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileAddsInPartsPass)
  explicit TileAddsInPartsPass(int threads) { this->threads = threads; }
  TileAddsInPartsPass(const TileAddsInPartsPass& other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "tile-adds-in-parts"; }
  StringRef getDescription() const override { return "Choose how tiles are added to memory"; }

  void runOnOperation() override {
    getOperation().walk([&](tile::StoreTileOp store) {
      if (isLarge(store))
        contract(store);
      else if (store.getAdds())
        expand(store);
    });
  }

 private:
  bool isLarge(tile::StoreTileOp store) {
    auto tensor = dyn_cast<RankedTensorType>(store.getValue().getType());
    return threads > 0 && tensor && tensor.getElementType().isF32() && !store.getAlignmentOffset() &&
           tensor.getNumElements() > kLarge * threads;
  }

  Option<int> threads{*this, "threads", llvm::cl::desc("That hold a tile; 0: a target whose tiles are in memory"),
                      llvm::cl::init(0)};
};

}  // namespace

std::unique_ptr<Pass> createTileAddsInPartsPass(int threads) {
  return std::make_unique<TileAddsInPartsPass>(threads);
}

}  // namespace ligerdsl::compiler
