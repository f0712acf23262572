#include "compiler/pipeline/loop_carried_state.h"

using namespace mlir;

namespace ligerdsl::compiler {

SmallVector<Operation*> LoopCarriedState::around(scf::ForOp inner) {
  SmallVector<Operation*> all;
  size_t loops = 0;  // number of ops up to and including the outermost loop
  for (Operation* op = inner->getParentOp(); op; op = op->getParentOp()) {
    all.push_back(op);
    if (isa<LoopLikeOpInterface>(op)) loops = all.size();
  }
  all.truncate(loops);
  std::reverse(all.begin(), all.end());
  return all;
}

LoopCarriedState::LoopCarriedState(IRRewriter& rewriter, scf::ForOp inner, ValueRange inits)
    : held(inits) {
  for (Operation* op : around(inner)) {
    auto loop = dyn_cast<scf::ForOp>(op);
    all.push_back({op, loop ? replace(rewriter, loop) : replace(rewriter, cast<scf::IfOp>(op))});
  }
  rewriter.setInsertionPoint(inner);
}

Operation* LoopCarriedState::replace(IRRewriter& rewriter, scf::ForOp loop) {
  SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
  SmallVector<Value> carried;
  auto keep = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
    carried.assign(arguments.begin(), arguments.end());
    return carried;
  };
  rewriter.setInsertionPoint(loop);
  Operation* now = *loop.replaceWithAdditionalYields(rewriter, held,
                                                     /*replaceInitOperandUsesInLoop=*/false, keep);
  now->setDiscardableAttrs(attributes);
  held = carried;
  return now;
}

// The branch without `inner` yields the values unchanged.
Operation* LoopCarriedState::replace(IRRewriter& rewriter, scf::IfOp branch) {
  rewriter.setInsertionPoint(branch);
  SmallVector<Type> types(branch.getResultTypes());
  for (Value value : held) types.push_back(value.getType());
  auto now = scf::IfOp::create(rewriter, branch.getLoc(), types, branch.getCondition(),
                               /*addThenBlock=*/true,
                               /*addElseBlock=*/true);
  now->setDiscardableAttrs(SmallVector<NamedAttribute>(branch->getDiscardableAttrs()));
  for (unsigned side = 0; side < 2; ++side) {
    Block& to = now->getRegion(side).front();
    if (branch->getRegion(side).empty()) {
      OpBuilder inside = OpBuilder::atBlockEnd(&to);
      scf::YieldOp::create(inside, branch.getLoc());
    } else {
      to.getOperations().splice(to.end(), branch->getRegion(side).front().getOperations());
    }
    Operation* yield = to.getTerminator();
    yield->insertOperands(yield->getNumOperands(), held);
  }
  rewriter.replaceOp(branch, now.getResults().take_front(branch.getNumResults()));
  return now;
}

void LoopCarriedState::leave(Operation* inner, ValueRange left) {
  SmallVector<Value> values(left);
  for (const Replaced& one : llvm::reverse(all)) {
    Operation* yield = inner->getBlock()->getTerminator();
    yield->setOperands(yield->getNumOperands() - values.size(), values.size(), values);
    inner = one.now;
    values = SmallVector<Value>(inner->getResults().take_back(values.size()));
  }
}

}  // namespace ligerdsl::compiler
