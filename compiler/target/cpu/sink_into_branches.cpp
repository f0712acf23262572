#include "compiler/target/cpu/sink_into_branches.h"

#include "compiler/analysis/effects.h"
#include "compiler/dialect/tile.h"
#include "compiler/target/cpu/plan.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static bool isMovable(Operation* op) {
  return isElementwise(op) || isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp,
                                  tile::PermuteOp, tile::SplatOp, tile::MakeRangeOp>(op);
}

// Returns true if the op writes memory or prints.
static bool changesMemory(Operation* op) {
  return writesMemory(op) || isa<tile::PrintOp>(op);
}

static bool touchesMemory(Operation* op) {
  return readsMemory(op) || changesMemory(op);
}

static bool anyOf(Operation* op, bool (*property)(Operation*)) {
  return op
      ->walk([&](Operation* inner) {
        return property(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

// Returns the only user of the branch's result if the branch has one result, a tile, and both ops
// are in one block. Returns null otherwise.
static Operation* onlyUser(scf::IfOp branch) {
  if (branch.getNumResults() != 1 || !tileType(branch.getResult(0)) ||
      !branch.getResult(0).hasOneUse())
    return {};
  Operation* user = *branch.getResult(0).user_begin();
  return user->getBlock() == branch->getBlock() ? user : nullptr;
}

// Returns true if `branch` may move to just before `user`. If the branch accesses memory, no op in
// between may write memory or print. If it writes or prints, no op in between may access memory.
static bool mayMoveTo(scf::IfOp branch, Operation* user) {
  bool touches = anyOf(branch, touchesMemory), writes = anyOf(branch, changesMemory);
  for (Operation* op = branch->getNextNode(); op != user; op = op->getNextNode())
    if ((touches && anyOf(op, changesMemory)) || (writes && anyOf(op, touchesMemory))) return false;
  return true;
}

// Moves `user` to the end of both branches.
static scf::IfOp takeIn(scf::IfOp branch, Operation* user) {
  OpBuilder b(user);
  auto taken = scf::IfOp::create(b, branch.getLoc(), user->getResultTypes(), branch.getCondition(),
                                 /*addThenBlock=*/false, /*addElseBlock=*/false);
  for (auto [from, to] : llvm::zip_equal(branch->getRegions(), taken->getRegions())) {
    to.takeBody(from);
    Operation* yield = to.front().getTerminator();
    IRMapping map;
    map.map(branch.getResult(0), yield->getOperand(0));
    b.setInsertionPoint(yield);
    Operation* copy = b.clone(*user, map);
    scf::YieldOp::create(b, yield->getLoc(), copy->getResults());
    yield->erase();
  }
  user->replaceAllUsesWith(taken);
  user->erase();
  branch->erase();
  return taken;
}

// Step 2 of sink_into_branches.h: moves ops that only the branches use into the branches.
static void takeInOperands(scf::IfOp branch) {
  for (Operation* op = branch->getPrevNode(); op;) {
    Operation* candidate = op;
    op = op->getPrevNode();
    if (!isMovable(candidate) || !tileType(candidate->getResult(0)) || candidate->use_empty())
      continue;
    if (!llvm::all_of(candidate->getUsers(),
                      [&](Operation* user) { return branch->isProperAncestor(user); }))
      continue;
    for (Region& region : branch->getRegions()) {
      auto isHere = [&](OpOperand& use) {
        return region.isAncestor(use.getOwner()->getParentRegion());
      };
      if (llvm::none_of(candidate->getUses(), isHere)) continue;
      OpBuilder b(&region.front(), region.front().begin());
      candidate->replaceUsesWithIf(b.clone(*candidate), isHere);
    }
    candidate->erase();
  }
}

void sinkIntoBranches(func::FuncOp function) {
  SmallVector<scf::IfOp> branches;
  function.walk([&](scf::IfOp branch) { branches.push_back(branch); });
  for (scf::IfOp branch : branches) {
    bool took = false;
    while (Operation* user = onlyUser(branch)) {
      bool ends = isa<tile::ReduceOp, tile::StoreTileOp>(user);
      if ((!ends && !isMovable(user)) || !mayMoveTo(branch, user)) break;
      branch = takeIn(branch, user);
      took = true;
      if (ends) break;
    }
    if (took) takeInOperands(branch);
  }
}

}  // namespace ligerdsl::compiler::cpu
