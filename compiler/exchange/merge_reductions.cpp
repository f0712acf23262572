// Finds pairs (first, second) of reductions in a block and merges them at the place of `first`:
//
//   1. Collect the ops between the two reductions on which `second` depends. `first` must not be
//      one of them. Each of them must be free to move: it is pure, or a read with no write between
//      `first` and itself. A remark reports a write that prevents the move.
//   2. Move these ops before `first`, in their order, and replace both reductions by one variadic
//      reduction there.
#include "compiler/exchange/merge_reductions.h"

#include "compiler/dialect/tile.h"
#include "compiler/remarks.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Returns the ops between `first` and `second` that `second` depends on, in program order. Returns
// nothing if `second` depends on `first`.
std::optional<SmallVector<Operation*>> movableSlice(Operation* first, Operation* second) {
  llvm::SmallPtrSet<Operation*, 16> needed{second};
  SmallVector<Operation*> slice;
  for (Operation* op = second;; op = op->getPrevNode()) {
    bool use = needed.contains(op);
    if (op == first) return use ? std::nullopt : std::optional(std::move(slice));
    if (!use) continue;
    op->walk([&](Operation* inner) {
      for (Value operand : inner->getOperands())
        if (Operation* definition = operand.getDefiningOp())
          if (Operation* outer = second->getBlock()->findAncestorOpInBlock(*definition))
            needed.insert(outer);
    });
    if (op != second) slice.insert(slice.begin(), op);
  }
}

// Returns the op that prevents the slice from moving before `first`: a write before a read of the
// slice, or an op of the slice that does more than read. Returns null if there is none.
Operation* obstacle(Operation* first, ArrayRef<Operation*> slice) {
  llvm::SmallPtrSet<Operation*, 16> moving(slice.begin(), slice.end());
  Operation* written = nullptr;
  for (Operation* op = first; !slice.empty() && op != slice.back()->getNextNode();
       op = op->getNextNode()) {
    bool pure = isMemoryEffectFree(op);
    bool onlyReads = !pure && hasSingleEffect<MemoryEffects::Read>(op);
    if (moving.contains(op) && !pure && (!onlyReads || written)) return onlyReads ? written : op;
    if (!pure && !onlyReads && !written) written = op;
  }
  return nullptr;
}

bool alike(tile::ReduceOp a, tile::ReduceOp b) {
  auto left = cast<RankedTensorType>(a.getSources()[0].getType()),
       right = cast<RankedTensorType>(b.getSources()[0].getType());
  return a.getAxis() == b.getAxis() && left.getShape() == right.getShape() &&
         left.getEncoding() == right.getEncoding();
}

// Builds the combiner of both reductions. Its arguments are the accumulators of a and b, then the
// elements of a and b.
void mergeCombiners(tile::ReduceOp a, tile::ReduceOp b, tile::ReduceOp merged) {
  OpBuilder builder(merged.getContext());
  Block* block = builder.createBlock(&merged.getCombiner());
  auto addArguments = [&](tile::ReduceOp op) {
    for (Value source : op.getSources())
      block->addArgument(cast<RankedTensorType>(source.getType()).getElementType(), op.getLoc());
  };
  for (int side = 0; side < 2; ++side) {
    addArguments(a);
    addArguments(b);
  }
  SmallVector<Value> yielded;
  const unsigned total = merged.getNumResults();
  unsigned begin = 0;
  for (tile::ReduceOp op : {a, b}) {
    const unsigned count = op.getNumResults();
    IRMapping mapping;
    Block& body = op.getCombiner().front();
    for (unsigned i = 0; i < count; ++i) {
      mapping.map(body.getArgument(i), block->getArgument(begin + i));
      mapping.map(body.getArgument(count + i), block->getArgument(total + begin + i));
    }
    for (Operation& inner : body.without_terminator()) builder.clone(inner, mapping);
    for (Value value : body.getTerminator()->getOperands())
      yielded.push_back(mapping.lookupOrDefault(value));
    begin += count;
  }
  tile::YieldOp::create(builder, merged.getLoc(), yielded);
}

tile::ReduceOp merge(tile::ReduceOp a, tile::ReduceOp b, ArrayRef<Operation*> slice) {
  for (Operation* op : slice) op->moveBefore(a);
  OpBuilder builder(a);
  SmallVector<Value> sources(a.getSources());
  llvm::append_range(sources, b.getSources());
  SmallVector<Type> types(a.getResultTypes());
  llvm::append_range(types, b.getResultTypes());
  // Every kind except `custom` has a commutative combiner, and two commutative combiners merge into
  // a commutative one.
  bool named =
      a.getKind() != tile::ReductionKind::custom && b.getKind() != tile::ReductionKind::custom;
  auto kind = named ? a.getKind() : tile::ReductionKind::custom;
  auto merged =
      tile::ReduceOp::create(builder, FusedLoc::get({a.getLoc(), b.getLoc()}, {}, a.getContext()),
                             types, kind, sources, a.getAxis());
  mergeCombiners(a, b, merged);
  for (auto [old, result] : llvm::enumerate(a.getResults()))
    result.replaceAllUsesWith(merged.getResult(old));
  for (auto [old, result] : llvm::enumerate(b.getResults()))
    result.replaceAllUsesWith(merged.getResult(a.getNumResults() + old));
  a.erase();
  b.erase();
  return merged;
}

void mergeInBlock(Block& block) {
  SmallVector<tile::ReduceOp> reductions(block.getOps<tile::ReduceOp>());
  for (size_t i = 0; i < reductions.size(); ++i)
    for (size_t j = i + 1; j < reductions.size(); ++j) {
      if (!reductions[j] || !reductions[i] || !alike(reductions[i], reductions[j])) continue;
      auto slice = movableSlice(reductions[i], reductions[j]);
      if (!slice) continue;
      if (Operation* between = obstacle(reductions[i], *slice)) {
        missed(reductions[j], RemarkId::reductions_not_merged)
            << "two reductions need an exchange each: the write at " << placeOf(between)
            << " precedes the load of this one's input, and the other reduction is at "
            << placeOf(reductions[i]) << "; load the input before the write";
        continue;
      }
      reductions[i] = merge(reductions[i], reductions[j], *slice);
      reductions[j] = nullptr;
    }
}

}  // namespace

void mergeReductions(func::FuncOp func) {
  SmallVector<Block*> blocks;
  func.walk([&](Block* block) {
    if (!isa<tile::ReduceOp, tile::ScanOp>(block->getParentOp())) blocks.push_back(block);
  });
  for (Block* block : blocks) mergeInBlock(*block);
}

}  // namespace ligerdsl::compiler
