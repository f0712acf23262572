#include "compiler/target/cpu/alias.h"

#include "compiler/analysis/effects.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

int AliasFacts::rootOf(Value pointer) const {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(pointer)) {
      if (argument.getOwner()->getParentOp() == function) return argument.getArgNumber();
      return -1;
    }
    Operation* op = pointer.getDefiningOp();
    if (isa<tile::SliceOp, tile::ViewPtrOp, tile::AddPtrOp, tile::SplatOp, tile::ExpandDimsOp,
            tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(op)) {
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
  return effectsOf(access)->front().address;
}

int64_t AliasFacts::classOf(int root) const {
  auto number = function.getArgAttrOfType<IntegerAttr>(root, tile::kAliasClassAttr);
  return number ? number.getInt() : 0;
}

// Fields of a partition access that determine which elements it accesses.
struct Partition {
  Value view;
  ArrayRef<int64_t> shape;
  ValueRange indices;
};

static std::optional<Partition> partitionOf(Operation* access) {
  return TypeSwitch<Operation*, std::optional<Partition>>(access)
      .Case<tile::LoadTileOp, tile::StoreTileOp>([](auto op) {
        return Partition{op.getView(), op.getTileShape(), op.getIndices()};
      })
      .Default([](Operation*) { return std::nullopt; });
}

bool AliasFacts::sameMemory(Value a, Value b) const {
  int rootA = rootOf(a), rootB = rootOf(b);
  if (rootA < 0 || rootB < 0) return false;
  return rootA == rootB || (classOf(rootA) > 0 && classOf(rootA) == classOf(rootB));
}

// Returns true if one tile index selects either the same elements of a and b, or disjoint ones.
// Returns false for two slices of one view, because they may begin at different elements.
bool AliasFacts::sameGrid(Value a, Value b) const {
  return a == b || (sameMemory(a, b) && !a.getDefiningOp() && !b.getDefiningOp());
}

bool AliasFacts::mayAlias(Operation* a, Operation* b) const {
  int rootA = rootOf(addressOf(a)), rootB = rootOf(addressOf(b));
  if (rootA < 0 || rootB < 0) return true;
  if (rootA != rootB && classOf(rootA) && classOf(rootB) && classOf(rootA) != classOf(rootB))
    return false;
  // Two tiles of one grid are disjoint if their indices are different constants in a dimension.
  auto first = partitionOf(a), second = partitionOf(b);
  if (!first || !second || first->shape != second->shape || !sameGrid(first->view, second->view))
    return true;
  return llvm::none_of(llvm::zip(first->indices, second->indices), [](auto pair) {
    APInt x, y;
    return matchPattern(std::get<0>(pair), m_ConstantInt(&x)) &&
           matchPattern(std::get<1>(pair), m_ConstantInt(&y)) && x != y;
  });
}

bool AliasFacts::readsConstantMemory(Operation* load) const {
  int root = rootOf(addressOf(load));
  return root >= 0 && function.getArgAttr(root, tile::kReadOnlyAttr);
}

bool AliasFacts::sameElements(Operation* a, Operation* b) const {
  auto first = partitionOf(a), second = partitionOf(b);
  return first && second && first->shape == second->shape &&
         llvm::equal(first->indices, second->indices) && sameGrid(first->view, second->view);
}

}  // namespace ligerdsl::compiler::cpu
