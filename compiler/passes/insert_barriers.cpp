// tgpu-insert-barriers
//
// Walks the function in program order with the set of accesses that happened since the last barrier. An op whose access
// needs a barrier after one of them (compiler/analysis/memory_access.h) gets a tgpu.barrier in front, which empties the
// set.
//
//   loops          the body is walked by itself, again and again with what its end left behind until nothing new
//   arrives: hazards
//                  of one iteration with the next are seen, and a body whose accesses are already separated gets no
//                  further barrier. If what came before the loop still conflicts with the body, the barrier stands
//                  before the loop.
//   slots          an access to a slot that changes with every iteration counts the turns of its loop: after one turn
//                  the loop is in the other slot. How often a finished loop turned is unknown.
//   conditionals   both branches start from the same set; the union leaves
//
// Conditions are scalars, equal in all threads of a CTA, so barriers may stand inside loops and branches.
#include <utility>

#include "compiler/analysis/memory_access.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Accesses since the last barrier on some path to here, by op and turns.
using Pending = llvm::MapVector<std::pair<Operation*, int>, MemoryAccess>;

constexpr int kManyTurns = 2;

void insert(Pending& into, const MemoryAccess& access) {
  into.insert({{access.op, access.turns}, access});
}

void join(Pending& into, const Pending& from) {
  for (const auto& [key, access] : from) insert(into, access);
}

// The same accesses `turns` iterations of the loop later.
Pending afterTurns(const Pending& pending, scf::ForOp loop, int turns) {
  Pending result;
  for (auto [key, access] : pending) {
    if (access.phase && access.phase.getOwner() == loop.getBody())
      access.turns = std::min(access.turns + turns, kManyTurns);
    insert(result, access);
  }
  return result;
}

class Inserter {
 public:
  void walk(Block& block, Pending& pending) {
    for (Operation& op : llvm::make_early_inc_range(block)) {
      if (isa<tgpu::BarrierOp>(op))
        pending.clear();
      else if (auto loop = dyn_cast<scf::ForOp>(op))
        walkLoop(loop, pending, [&](Pending& state) {
          walk(*loop.getBody(), state);
          Pending exit = afterTurns(state, loop, kManyTurns);
          state = afterTurns(state, loop, 1);
          return exit;
        });
      else if (auto loop = dyn_cast<scf::WhileOp>(op))
        walkLoop(loop, pending, [&](Pending& state) {
          walk(loop.getBefore().front(), state);
          Pending exit = state;
          walk(loop.getAfter().front(), state);
          return exit;
        });
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        walkIf(branch, pending);
      else if (auto access = memoryAccess(&op))
        add(*access, pending);
    }
  }

 private:
  void add(const MemoryAccess& access, Pending& pending) {
    if (llvm::any_of(pending, [&](const auto& entry) { return needsBarrier(entry.second, access); })) {
      insertBefore(access.op);
      pending.clear();
    }
    insert(pending, access);
  }

  void insertBefore(Operation* op) {
    found = true;
    if (!inserting) return;
    OpBuilder builder(op);
    tgpu::BarrierOp::create(builder, op->getLoc());
  }

  // `iterate` walks one iteration from the state at the loop's head, leaves the state of the back edge in its argument
  // and returns the state in which the loop is left.
  template <typename Iterate>
  void walkLoop(Operation* loop, Pending& pending, Iterate iterate) {
    Pending carried;
    for (bool stable = false; !stable;) {
      Pending state = carried;
      iterate(state);
      stable = state.size() == carried.size() &&
               llvm::all_of(state, [&](const auto& access) { return carried.count(access.first) > 0; });
      carried = std::move(state);
    }
    if (conflicts(pending, iterate)) {
      insertBefore(loop);
      pending.clear();
    }
    join(carried, pending);
    Pending exit = iterate(carried);
    join(pending, exit);
  }

  // Whether an iteration that starts in this state would need another barrier.
  template <typename Iterate>
  bool conflicts(Pending state, Iterate iterate) {
    bool outerInserting = std::exchange(inserting, false), outerFound = std::exchange(found, false);
    iterate(state);
    inserting = outerInserting;
    return std::exchange(found, outerFound);
  }

  void walkIf(scf::IfOp branch, Pending& pending) {
    Pending taken = pending, skipped = pending;
    walk(branch.getThenRegion().front(), taken);
    if (!branch.getElseRegion().empty()) walk(branch.getElseRegion().front(), skipped);
    pending = std::move(taken);
    join(pending, skipped);
  }

  bool inserting = true;  // otherwise only `found` is set
  bool found = false;
};

class TgpuInsertBarriersPass : public PassWrapper<TgpuInsertBarriersPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuInsertBarriersPass)
  StringRef getArgument() const override { return "tgpu-insert-barriers"; }
  StringRef getDescription() const override { return "Separate conflicting accesses of different threads"; }

  void runOnOperation() override {
    Pending pending;
    for (Block& block : getOperation().getBody()) Inserter().walk(block, pending);
  }
};

}  // namespace

std::unique_ptr<Pass> createTgpuInsertBarriersPass() {
  return std::make_unique<TgpuInsertBarriersPass>();
}

}  // namespace ligerdsl::compiler
