#include "compiler/analysis/shared_lifetime.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Returns the innermost block that contains all users.
Block* blockOfAll(ArrayRef<Operation*> users) {
  Block* block = users.front()->getBlock();
  while (!llvm::all_of(
      users, [&](Operation* user) { return block->findAncestorOpInBlock(*user) != nullptr; }))
    block = block->getParentOp()->getBlock();
  return block;
}

Lifetime lifetimeIn(Block* block, ArrayRef<Operation*> users) {
  Lifetime life;
  for (Operation* user : users) {
    Operation* here = block->findAncestorOpInBlock(*user);
    if (!life.first || here->isBeforeInBlock(life.first)) life.first = here;
    if (!life.last || life.last->isBeforeInBlock(here)) life.last = here;
  }
  return life;
}

}  // namespace

bool Lifetime::meets(Operation* scope) const {
  if (!first) return true;
  Block* block = first->getBlock();
  if (Operation* here = block->findAncestorOpInBlock(*scope))
    return !here->isBeforeInBlock(first) && !last->isBeforeInBlock(here);
  return scope->isAncestor(block->getParentOp());
}

Lifetime lifetimeOf(tgpu::RingOp ring) {
  if (ring.getType().getFill() == tgpu::RingFill::bulk) return {};
  const SmallVector<Operation*> users(ring->getUsers());
  if (users.empty()) return {ring, ring};
  const Lifetime life = lifetimeIn(blockOfAll(users), users);
  if (life.last->hasAttr(kEmptiedAttr)) return life;
  return {ring, lifetimeIn(ring->getBlock(), users).last};
}

}  // namespace ligerdsl::compiler
