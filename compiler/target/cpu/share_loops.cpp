#include "compiler/target/cpu/share_loops.h"

#include "compiler/dialect/tile.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static bool isStoredBefore(Operation* op, RankedTensorType type) {
  for (Operation* other = op->getPrevNode(); other; other = other->getPrevNode()) {
    auto store = dyn_cast<tile::StoreTileOp>(other);
    if (!store) continue;
    auto stored = dyn_cast<RankedTensorType>(store.getValue().getType());
    if (stored && stored.getShape() == type.getShape()) return true;
  }
  return false;
}

// Returns the 1 x N row that `line` reshapes, if a tile of its shape is stored before `reduce`.
// Returns null otherwise.
static Value storedRow(Value line, Operation* reduce) {
  auto reshape = line.getDefiningOp<tile::ReshapeOp>();
  if (!reshape) return {};
  auto type = cast<RankedTensorType>(reshape.getSource().getType());
  const bool isRow = type.getRank() == 2 && type.getDimSize(0) == 1 && type.getDimSize(1) > 1;
  return isRow && isStoredBefore(reduce, type) ? reshape.getSource() : Value();
}

static tile::ReduceOp along(OpBuilder& b, tile::ReduceOp op, ValueRange sources, int axis,
                            TypeRange results) {
  OperationState state(op.getLoc(), op->getName(), sources, results, op->getAttrs());
  IRMapping mapping;
  op.getCombiner().cloneInto(state.addRegion(), mapping);
  auto reduce = cast<tile::ReduceOp>(b.create(state));
  reduce.setAxis(axis);
  return reduce;
}

// Returns the first user of `op` in its block, or null if there is none.
static Operation* firstUser(Operation* op) {
  Operation* first = nullptr;
  for (Operation* user : op->getUsers()) {
    Operation* here = op->getBlock()->findAncestorOpInBlock(*user);
    if (!first || here->isBeforeInBlock(first)) first = here;
  }
  return first;
}

void shareLoops(func::FuncOp function) {
  OpBuilder b(function.getContext());
  SmallVector<tile::ReduceOp> reductions;
  function.walk([&](tile::ReduceOp op) { reductions.push_back(op); });
  for (tile::ReduceOp op : reductions) {
    SmallVector<Value> rows;
    SmallVector<Type> sums;
    for (Value source : op.getSources()) {
      Value row =
          cast<RankedTensorType>(source.getType()).getRank() == 1 ? storedRow(source, op) : Value();
      if (!row) break;
      rows.push_back(row);
      sums.push_back(RankedTensorType::get({1}, getElementTypeOrSelf(source.getType())));
    }
    if (rows.size() != op.getSources().size()) continue;
    b.setInsertionPoint(op);
    tile::ReduceOp ofRow = along(b, op, rows, 1, sums);
    tile::ReduceOp scalar = along(b, op, ofRow.getResults(), 0, op->getResultTypes());
    op->replaceAllUsesWith(scalar);
    op->erase();
    // The final reduction needs the loop's result and would end the loop's group. It moves to its
    // first user, so that other reductions of the same shape can still join the group.
    if (Operation* user = firstUser(scalar)) scalar->moveBefore(user);
  }
}

}  // namespace ligerdsl::compiler::cpu
