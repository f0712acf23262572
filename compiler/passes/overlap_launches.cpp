// tgpu-overlap-launches
//
// Lets a kernel start while the previous one on its stream still runs:
//
//   1. Find the first op of the kernel's outermost block that may access memory of other kernels,
//      itself or in its regions. Ops on shared memory do not; ops with unknown effects may.
//   2. Insert a tgpu.grid_wait before it, or at the end if there is none. Every thread reaches the
//      outermost block, so no grid ends before the grids that it depends on.
//   3. Insert a tgpu.launch_dependents after the wait. Every earlier grid has ended by then. At
//      most two grids of a chain run at a time, and all CTAs of this grid have started when the
//      first CTA of the next one starts.
//   4. Prefetch tiles (prefetch_tile) before the wait, in the programs that may have to wait, so
//      that memory has work while the previous grid ends. A tile is prefetched if the outermost
//      block loads it before the first loop, branch or reduction. It must also be large and read by
//      no other program, and its address must need no load. The load itself stays after the wait:
//      later writes of the previous grid update the prefetched lines in L2. A kernel with large
//      CTAs prefetches nothing unless it is persistent (beginsOften).
//
// docs/design/decisions/005-overlap-launches.md explains why this is correct for any kernels before
// and after.
#include "compiler/analysis/effects.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/resident/program_loop.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUOVERLAPLAUNCHESPASS
#include "compiler/passes/Passes.h.inc"

namespace {

// Returns true if the op, without its regions, may access memory of other kernels.
bool mayTouchGlobal(Operation* op) {
  if (touchesOnlyShared(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>()) return false;
  return !isMemoryEffectFree(op);
}

bool needsGridWait(Operation& op) {
  return op
      .walk([](Operation* inner) {
        return mayTouchGlobal(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

// Returns true if the tile is large and contiguous, with rows of at least one cache line, because
// prefetch_tile needs one instruction per 128 bytes along the last dimension.
bool isWorthPrefetching(tile::LoadTileOp load, int64_t leastBytes) {
  tile::ViewType view = load.getView().getType();
  int64_t bytes = view.getElementBytes();
  for (int64_t size : tile::resultShape(load.getTileShape())) bytes *= size;
  return bytes >= leastBytes && !load.getAlignmentOffset() && view.getStrides().back() == 1 &&
         load.getTileShape().back() * view.getElementBytes() >= program::kCacheLineBytes;
}

// Returns true if the grid may need several waves of large CTAs, because the kernel is not
// persistent. CTAs of later waves never wait, but the test whether to prefetch would delay them.
bool beginsOften(func::FuncOp kernel, int64_t threads, const program::GpuArch& arch) {
  const bool persistent =
      kernel.walk([](tile::NumProgramsOp) { return WalkResult::interrupt(); }).wasInterrupted();
  return threads > arch.tuning.most_prefetch_threads && !persistent;
}

// Returns true if waiting programs, which differ only along the first axis (tgpu.may_wait), load
// different tiles. A tile that all of them read is not prefetched: one CTA's load is enough, and a
// prefetch by all CTAs at once takes longer than a load from memory.
bool isTheProgramsOwn(ValueRange indices) {
  return originOf(indices).program;
}

// Computes the indices of tiles before the wait.
class BeforeWait {
 public:
  explicit BeforeWait(Operation* wait) : wait(wait), builder(wait) {}

  // Returns the values as computed before the wait, or nothing if one of them depends on memory.
  std::optional<SmallVector<Value>> values(ValueRange wanted) {
    if (!llvm::all_of(wanted, [&](Value value) { return knows(value); })) return std::nullopt;
    return llvm::map_to_vector(wanted, [&](Value value) { return compute(value); });
  }

 private:
  bool isAfterWait(Operation* op) const {
    return op && op->getBlock() == wait->getBlock() && wait->isBeforeInBlock(op);
  }
  bool knows(Value value) {
    Operation* op = value.getDefiningOp();
    if (!isAfterWait(op)) return true;
    if (auto found = decided.find(op); found != decided.end()) return found->second;
    const bool known =
        isPure(op) && op->getNumRegions() == 0 &&
        llvm::all_of(op->getOperands(), [&](Value operand) { return knows(operand); });
    return decided[op] = known;
  }
  Value compute(Value value) {
    Operation* op = value.getDefiningOp();
    if (!isAfterWait(op) || known.contains(value)) return known.lookupOrDefault(value);
    for (Value operand : op->getOperands()) compute(operand);
    builder.clone(*op, known);
    return known.lookup(value);
  }

  Operation* wait;
  OpBuilder builder;
  IRMapping known;
  // Cached results of knows(), because many operands may lead to one op.
  llvm::SmallDenseMap<Operation*, bool> decided;
};

// Prefetches, before the wait, the tiles of at least `leastBytes` bytes that the block loads after
// the wait and before its next op with a region.
void prefetchWhileWaiting(tgpu::GridWaitOp wait, int64_t leastBytes) {
  BeforeWait front(wait);
  OpBuilder builder(wait);
  scf::IfOp waiting;
  for (Operation* op = wait->getNextNode(); op && op->getNumRegions() == 0;
       op = op->getNextNode()) {
    auto load = dyn_cast<tile::LoadTileOp>(op);
    if (!load || !isWorthPrefetching(load, leastBytes) || !isTheProgramsOwn(load.getIndices()))
      continue;
    const std::optional<SmallVector<Value>> operands =
        front.values(load->getOperands());  // view and indices
    if (!operands) {
      missed(load, RemarkId::not_prefetched_before_launch)
          << "not prefetched while the previous kernel ends: its index comes from "
             "memory; compute it from the program id";
      continue;
    }
    if (!waiting) {
      Value mayWait = tgpu::MayWaitOp::create(builder, wait.getLoc(), builder.getI1Type());
      waiting = scf::IfOp::create(builder, wait.getLoc(), mayWait, /*withElseRegion=*/false);
    }
    OpBuilder inside = waiting.getThenBodyBuilder();
    tile::PrefetchTileOp::create(inside, load.getLoc(), operands->front(),
                                 ArrayRef(*operands).drop_front(), load.getTileShape());
  }
  if (waiting) waiting->moveBefore(wait);  // after the indices
}

class TgpuOverlapLaunchesPass : public impl::TgpuOverlapLaunchesPassBase<TgpuOverlapLaunchesPass> {
 public:
  using TgpuOverlapLaunchesPassBase::TgpuOverlapLaunchesPassBase;

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    const int64_t threads = program::kWarpThreads * int64_t{numWarps};
    Block& body = getOperation().getBody().front();
    auto first = llvm::find_if(body.without_terminator(), needsGridWait);
    Operation& at = first == body.without_terminator().end() ? *body.getTerminator() : *first;
    OpBuilder builder(&at);
    auto wait = tgpu::GridWaitOp::create(builder, at.getLoc());
    tgpu::LaunchDependentsOp::create(builder, at.getLoc());
    if (!beginsOften(getOperation(), threads, *arch))
      prefetchWhileWaiting(wait, arch->tuning.least_prefetch_bytes * threads * numCtas);
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
