#include "compiler/target/cpu/alias.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

int AliasFacts::rootOf(Value pointer) const {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(pointer)) {
      if (argument.getOwner()->getParentOp() == function) return argument.getArgNumber();
      return -1;
    }
    Operation* op = pointer.getDefiningOp();
    if (isa<tile::ViewPtrOp, tile::AddPtrOp, tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp,
            tile::PermuteOp>(op)) {
      pointer = op->getOperand(0);
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      int a = rootOf(select.getTrueValue()), b = rootOf(select.getFalseValue());
      return a == b ? a : -1;
    } else {
      return -1;
    }
  }
}

Value AliasFacts::addressOf(Operation* access) {
  return TypeSwitch<Operation*, Value>(access)
      .Case<tile::LoadTileOp, tile::StoreTileOp>([](auto op) { return op.getView(); })
      .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp>([](auto op) { return op.getPtr(); });
}

int64_t AliasFacts::classOf(int root) const {
  auto number = function.getArgAttrOfType<IntegerAttr>(root, tile::kAliasClassAttr);
  return number ? number.getInt() : 0;
}

bool AliasFacts::mayAlias(Operation* a, Operation* b) const {
  int rootA = rootOf(addressOf(a)), rootB = rootOf(addressOf(b));
  if (rootA < 0 || rootB < 0 || rootA == rootB) return true;
  return classOf(rootA) == classOf(rootB);
}

bool AliasFacts::readsConstantMemory(Operation* load) const {
  int root = rootOf(addressOf(load));
  return root >= 0 && function.getArgAttr(root, tile::kReadOnlyAttr);
}

// The parts of a partition access that decide which elements it reaches.
static bool partition(Operation* access, Value& view, ArrayRef<int64_t>& shape, OperandRange& indices) {
  return TypeSwitch<Operation*, bool>(access)
      .Case<tile::LoadTileOp, tile::StoreTileOp>([&](auto op) {
        view = op.getView();
        shape = op.getTileShape();
        indices = op.getIndices();
        return true;
      })
      .Default([](Operation*) { return false; });
}

bool AliasFacts::sameElements(Operation* a, Operation* b) const {
  Value viewA, viewB;
  ArrayRef<int64_t> shapeA, shapeB;
  OperandRange indicesA(a->getOperands()), indicesB(b->getOperands());
  if (!partition(a, viewA, shapeA, indicesA) || !partition(b, viewB, shapeB, indicesB)) return false;
  if (shapeA != shapeB || !llvm::equal(indicesA, indicesB)) return false;
  int rootA = rootOf(viewA), rootB = rootOf(viewB);
  if (rootA < 0 || rootB < 0) return false;
  return rootA == rootB || (classOf(rootA) > 0 && classOf(rootA) == classOf(rootB));
}

}  // namespace ligerdsl::compiler::cpu
