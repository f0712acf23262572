// tgpu-hoist-before-barriers
//
// What was loaded before a barrier and is used behind it waits in registers while the CTA meets. An accumulator that
// takes values which are complete before the barrier need not: with it the tiles it takes would wait, beside its own.
//
//   1. Behind a barrier collect the pure ops that need nothing from behind it.
//   2. For every tile that leaves this set, take the ops that compute it. If what they leave for others fills no more
//      registers than what they use last, they move to where their operands are complete, before the barrier.
//   3. Again, until nothing moves: what two sums use is free to go once the first has moved.
//
// Cluster exchanges are left alone: what moved before them would delay their sending, and the norms' backward on
// clusters, whose threads have all their registers in use before they send, would spill.
#include "compiler/analysis/effects.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

class BarrierSite {
 public:
  explicit BarrierSite(Operation* barrier) : barrier(barrier), block(barrier->getBlock()) {}

  void run() {
    while (moveOne()) continue;
  }

 private:
  // The op of this block that the user is in, if it comes behind the barrier.
  Operation* behind(Operation* user) const {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && barrier->isBeforeInBlock(here) ? here : nullptr;
  }

  llvm::SmallPtrSet<Operation*, 32> independentOps() const {
    llvm::SmallPtrSet<Operation*, 32> independent;
    for (Operation* op = barrier->getNextNode(); op; op = op->getNextNode()) {
      bool ready = isPure(op) && op->getNumRegions() == 0 && !op->hasTrait<OpTrait::IsTerminator>();
      for (Value operand : op->getOperands()) {
        Operation* definition = operand.getDefiningOp();
        ready &= !definition || definition->getBlock() != block || definition->isBeforeInBlock(barrier) ||
                 independent.contains(definition);
      }
      if (ready) independent.insert(op);
    }
    return independent;
  }

  bool moveOne() {
    const auto independent = independentOps();
    for (Operation* op = barrier->getNextNode(); op; op = op->getNextNode()) {
      if (!independent.contains(op)) continue;
      bool leaves = llvm::any_of(op->getUsers(), [&](Operation* user) { return !independent.contains(user); });
      if (!leaves) continue;
      llvm::SetVector<Operation*> slice;
      collect(op, independent, slice);
      if (!frees(slice)) continue;
      move(slice);
      return true;
    }
    return false;
  }

  // The ops that compute `op`, operands first.
  static void collect(Operation* op, const llvm::SmallPtrSet<Operation*, 32>& independent,
                      llvm::SetVector<Operation*>& slice) {
    if (slice.contains(op)) return;
    for (Value operand : op->getOperands())
      if (Operation* definition = operand.getDefiningOp(); definition && independent.contains(definition))
        collect(definition, independent, slice);
    slice.insert(op);
  }

  // Whether the tiles that nobody behind the barrier would need any more fill at least the registers of those that
  // others would then need from before it.
  bool frees(const llvm::SetVector<Operation*>& slice) const {
    auto onlyHere = [&](Value value) {
      return llvm::all_of(value.getUsers(), [&](Operation* user) {
        Operation* here = behind(user);
        return !here || slice.contains(here);
      });
    };
    llvm::SmallDenseSet<Value> ended, left;
    for (Operation* op : slice) {
      for (Value operand : op->getOperands())
        if (operand.getParentBlock() == block && !slice.contains(operand.getDefiningOp()) && onlyHere(operand))
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
        if (definition && definition->getBlock() == block && (!last || last->isBeforeInBlock(definition)))
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

class TgpuHoistBeforeBarriersPass : public PassWrapper<TgpuHoistBeforeBarriersPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuHoistBeforeBarriersPass)
  StringRef getArgument() const override { return "tgpu-hoist-before-barriers"; }
  StringRef getDescription() const override { return "Finish before barriers what frees registers there"; }

  void runOnOperation() override {
    getOperation().walk([](Operation* op) {
      if (meetsThreads(op) || isa<tgpu::ClusterBarrierOp>(op)) BarrierSite(op).run();
    });
  }
};

}  // namespace

std::unique_ptr<Pass> createTgpuHoistBeforeBarriersPass() {
  return std::make_unique<TgpuHoistBeforeBarriersPass>();
}

}  // namespace ligerdsl::compiler
