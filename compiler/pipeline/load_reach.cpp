// Rule S: a load may move ahead of a store if
// - they cannot overlap (alias facts), or
// - the store is after the load, both divide the same memory into tiles of the same shape and
//   alignment offset, and they share an index that differs between iterations. Iteration iv then
//   stores its own tile, and loads the tile of a later iteration.
#include "compiler/pipeline/load_reach.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ligerdsl::compiler {

Operation* LoadReach::collectWrites() {
  Operation* atomic = nullptr;
  at.loop.getBody()->walk([&](Operation* op) {
    FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
    if (failed(accesses) ||
        llvm::any_of(*accesses, [](const MemoryAccess& access) { return access.atomic; })) {
      atomic = op;
      return WalkResult::interrupt();
    }
    for (const MemoryAccess& access : *accesses)
      if (access.writes) writes.push_back(access);
    return WalkResult::advance();
  });
  return atomic;
}

LoadReach::Reach LoadReach::of(tile::LoadTileOp load) {
  SetVector<Operation*> slice;
  bool follows = false;
  if (!at.loop.isDefinedOutsideOfLoop(load.getView())) {
    at.reasonNotAhead =
        "it reads a slice that is taken inside the loop; take the slice before the loop";
    return Reach::none;
  }
  for (Value index : PipelinedLoop::positionOf(load))
    if (!at.addSlice(index, slice, follows)) return Reach::none;
  MemoryAccess access = memoryAccess(load);
  for (const MemoryAccess& write : writes) {
    if (follows ? mayMoveAheadOf(write, access, load) : !mayOverlap(write, access)) continue;
    at.reasonNotAhead = "the store at " + placeOf(write.op) +
                        " may write what it reads; promise that the arguments do not overlap "
                        "(no_alias), or store after the load, at its indices";
    return Reach::none;
  }
  return follows ? Reach::ahead : Reach::always;
}

// Returns true if the load may move ahead of the write (rule S).
bool LoadReach::mayMoveAheadOf(const MemoryAccess& write, const MemoryAccess& read,
                               tile::LoadTileOp load) {
  scf::ForOp loop = at.loop;
  if (!mayOverlap(write, read)) return true;
  auto store = dyn_cast<tile::StoreTileOp>(write.op);
  bool exact =
      write.root == read.root || (write.aliasClass != 0 && write.aliasClass == read.aliasClass);
  if (!store || !write.root || !read.root || !exact ||
      store.getTileShape() != load.getTileShape() ||
      store.getAlignmentOffset() != load.getAlignmentOffset())
    return false;
  if (store.getView() != load.getView() &&
      (store.getView().getDefiningOp() || load.getView().getDefiningOp()))
    return false;
  // A load after the store reads the stored values.
  if (!load->isBeforeInBlock(loop.getBody()->findAncestorOpInBlock(*store))) return false;
  return llvm::any_of(llvm::zip_equal(store.getIndices(), load.getIndices()), [&](auto pair) {
    auto [stored, loaded] = pair;
    return stored == loaded && isInjective(stored);
  });
}

// Returns true if the value differs between any two iterations.
bool LoadReach::isInjective(Value value) {
  if (value == at.loop.getInductionVar()) return true;
  Operation* op = value.getDefiningOp();
  if (!op) return false;
  if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) return isInjective(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp>(op)) return false;
  Value a = op->getOperand(0), b = op->getOperand(1);
  return at.loop.isDefinedOutsideOfLoop(a) ? isInjective(b)
                                           : at.loop.isDefinedOutsideOfLoop(b) && isInjective(a);
}

}  // namespace ligerdsl::compiler
