// tgpu-hoist-before-barriers
//
// A value that is loaded before a barrier and used after it stays in registers across the barrier.
// If all inputs of an accumulation are complete before the barrier, the accumulation can run there.
// Then only the accumulator stays in registers, not its inputs.
//
//   1. Collect the pure ops after a barrier that depend only on values before it, directly or
//      through other such ops.
//   2. For each result of these ops that another op uses, find the ops that compute it. They move
//      before the barrier, directly after their last operand, if that frees at least the registers
//      that their results need.
//   3. Repeat until nothing moves: once one of two accumulations has moved, the other's move can
//      free their common operand.
//
// Ops do not move before cluster exchanges, because that would delay the send. In backward passes
// of norms on clusters, whose threads use all registers before the send, it would also cause
// spills.
#include "compiler/analysis/effects.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUHOISTBEFOREBARRIERSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

class BarrierSite {
 public:
  explicit BarrierSite(Operation* barrier) : barrier(barrier), block(barrier->getBlock()) {}

  void run() {
    while (moveOne()) continue;
  }

 private:
  // Returns the op of this block that contains the user, if it is after the barrier.
  Operation* userAfter(Operation* user) const {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && barrier->isBeforeInBlock(here) ? here : nullptr;
  }

  llvm::SmallPtrSet<Operation*, 32> independentOps() const {
    llvm::SmallPtrSet<Operation*, 32> independent;
    for (Operation* op = barrier->getNextNode(); op; op = op->getNextNode()) {
      bool ready = isPure(op) && op->getNumRegions() == 0 && !op->hasTrait<OpTrait::IsTerminator>();
      for (Value operand : op->getOperands()) {
        Operation* definition = operand.getDefiningOp();
        ready &= !definition || definition->getBlock() != block ||
                 definition->isBeforeInBlock(barrier) || independent.contains(definition);
      }
      if (ready) independent.insert(op);
    }
    return independent;
  }

  bool moveOne() {
    const auto independent = independentOps();
    for (Operation* op = barrier->getNextNode(); op; op = op->getNextNode()) {
      if (!independent.contains(op)) continue;
      bool leaves = llvm::any_of(op->getUsers(),
                                 [&](Operation* user) { return !independent.contains(user); });
      if (!leaves) continue;
      llvm::SetVector<Operation*> slice;
      collect(op, independent, slice);
      if (!frees(slice)) continue;
      move(slice);
      return true;
    }
    return false;
  }

  // Collects the ops that compute `op`, operands first.
  static void collect(Operation* op, const llvm::SmallPtrSet<Operation*, 32>& independent,
                      llvm::SetVector<Operation*>& slice) {
    if (slice.contains(op)) return;
    for (Value operand : op->getOperands())
      if (Operation* definition = operand.getDefiningOp();
          definition && independent.contains(definition))
        collect(definition, independent, slice);
    slice.insert(op);
  }

  // Returns true if the move needs no additional registers. The tiles no longer needed after the
  // barrier must be larger than kFewBytes, and at least as large as the results that ops after it
  // use.
  bool frees(const llvm::SetVector<Operation*>& slice) const {
    auto onlyHere = [&](Value value) {
      return llvm::all_of(value.getUsers(), [&](Operation* user) {
        Operation* here = userAfter(user);
        return !here || slice.contains(here);
      });
    };
    llvm::SmallDenseSet<Value> ended, left;
    for (Operation* op : slice) {
      for (Value operand : op->getOperands())
        if (operand.getParentBlock() == block && !slice.contains(operand.getDefiningOp()) &&
            onlyHere(operand))
          ended.insert(registersOf(operand));
      for (Value result : op->getResults())
        if (!onlyHere(result)) left.insert(registersOf(result));
    }
    auto bytes = [](const llvm::SmallDenseSet<Value>& values) {
      int64_t total = 0;
      for (Value value : values) total += bytesPerThread(value);
      return total;
    };
    return bytes(ended) > kFewBytes && bytes(left) <= bytes(ended);
  }

  void move(const llvm::SetVector<Operation*>& slice) const {
    for (Operation* op : slice) {
      Operation* last = nullptr;
      for (Value operand : op->getOperands()) {
        Operation* definition = operand.getDefiningOp();
        if (definition && definition->getBlock() == block &&
            (!last || last->isBeforeInBlock(definition)))
          last = definition;
      }
      if (last)
        op->moveAfter(last);
      else
        op->moveBefore(block, block->begin());
    }
  }

  Operation* barrier;
  Block* block;
};

class TgpuHoistBeforeBarriersPass
    : public impl::TgpuHoistBeforeBarriersPassBase<TgpuHoistBeforeBarriersPass> {
 public:
  using TgpuHoistBeforeBarriersPassBase::TgpuHoistBeforeBarriersPassBase;

  void runOnOperation() override {
    getOperation().walk([](Operation* op) {
      if (synchronisesThreads(op) || isa<tgpu::ClusterBarrierOp>(op)) BarrierSite(op).run();
    });
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
