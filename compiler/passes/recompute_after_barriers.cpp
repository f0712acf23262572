// tgpu-recompute-after-barriers
//
// A tile that is needed on both sides of a barrier stays in registers while the CTA exchanges
// values. If such tiles would fill more than a part of a thread's registers (GpuTuning), those that
// come from narrower tiles are computed again:
//
//   1. At every barrier, and at the wait of a cluster exchange, count the tiles that are alive
//      across it. A broadcast tile counts as its source.
//   2. While they are too many, recompute one tile of 32-bit elements, the one with the least work
//      per freed byte. Its operands, followed through cheap ops, must end in narrower tiles, in
//      values from outside of the block, or in tiles of few registers.
//   3. Only the narrower tile stays in registers. It passes through tgpu.opaque; otherwise LLVM and
//      ptxas would recognise the result and keep it. A tile that stays in memory for this iteration
//      (staged in shared memory, or a weight in L1) is read once more instead.
//   4. If too many are left, a remark says by how much.
//
// The same holds for tiles that are made before a loop and used in it or after it. They stay in
// registers through all iterations, and are counted for each loop that contains a barrier. Again
// the narrower tile stays instead.
#include "compiler/analysis/effects.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPURECOMPUTEAFTERBARRIERSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr size_t kMostRecomputedOps = 8;

bool isCheap(Operation* op) {
  return isa<arith::ExtFOp, tile::Fp8DecodeOp, arith::MulFOp, arith::AddFOp, arith::SubFOp,
             arith::NegFOp, math::FmaOp, tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp,
             tile::ReshapeOp, arith::ConstantOp>(op);
}

// Returns true if memory holds the value until the end of the iteration. That is a slot that each
// thread fills for itself, or a read-only argument at an index that every iteration reads (so that
// it stays in L1).
bool staysInMemory(Value value) {
  if (auto read = value.getDefiningOp<tgpu::RingReadOp>())
    return read.getRing().getType().getFill() == tgpu::RingFill::asyncOwn;
  auto load = value.getDefiningOp<tile::LoadTileOp>();
  auto loop = load ? dyn_cast<scf::ForOp>(load->getParentOp()) : scf::ForOp();
  return loop && memoryAccess(load).readOnly &&
         (!load.getAlignmentOffset() || loop.isDefinedOutsideOfLoop(load.getAlignmentOffset())) &&
         llvm::all_of(load.getIndices(),
                      [&](Value index) { return loop.isDefinedOutsideOfLoop(index); });
}

// A tile that could be computed again, by `ops` from `leaves`.
struct Candidate {
  Value value;
  SetVector<Operation*> ops;
  SetVector<Value> leaves;
  // Bytes of freed registers, and bytes of the results of the repeated ops.
  int64_t freed = 0, work = 0;

  double price() const { return static_cast<double>(work) / static_cast<double>(freed); }
};

// Recomputes tiles of the site, cheapest first, until the others fit in `room`. Returns the bytes
// that are still too many.
template <typename Site>
int64_t makeRoom(Site& site, int64_t room) {
  int64_t excess = -room;
  SetVector<Value> tiles;
  for (Value value : site.waiting()) tiles.insert(registersOf(value));
  for (Value tile : tiles)
    if (int64_t bytes = bytesPerThread(tile); bytes > kFewBytes) excess += bytes;
  while (excess > 0) {
    std::optional<Candidate> best;
    for (Value value : site.waiting())
      if (std::optional<Candidate> other = site.candidateFor(value);
          other && (!best || other->price() < best->price()))
        best = std::move(other);
    if (!best) return excess;
    excess -= best->freed;
    site.recompute(*best);
  }
  return 0;
}

class BarrierSite {
 public:
  // `room`: register bytes per thread that tiles may use.
  BarrierSite(Operation* barrier, int64_t room)
      : barrier(barrier), block(barrier->getBlock()), room(room) {}

  void run() {
    const int64_t excess = makeRoom(*this, room);
    if (excess > 0)
      missed(barrier, RemarkId::spills_likely)
          << "spills are likely: " << excess + room
          << " bytes of tiles per thread wait in registers across this "
          << "exchange, and there is room for " << room
          << "; use more warps, smaller tiles or a smaller min_ctas_per_sm";
  }

 private:
  template <typename Site>
  friend int64_t makeRoom(Site& site, int64_t room);

  // Returns the op of this block that contains the user, if it is after the barrier.
  Operation* userBehind(Operation* user) {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && barrier->isBeforeInBlock(here) ? here : nullptr;
  }

  SetVector<Value> waiting() {
    SetVector<Value> alive;
    auto add = [&](Value value) {
      if (llvm::any_of(value.getUsers(),
                       [&](Operation* user) { return userBehind(user) != nullptr; }))
        alive.insert(value);
    };
    for (BlockArgument argument : block->getArguments()) add(argument);
    for (Operation& op : *block) {
      if (&op == barrier) break;
      for (Value result : op.getResults()) add(result);
    }
    // Values from outside of the block stay alive through all iterations.
    block->walk([&](Operation* op) {
      for (Value operand : op->getOperands())
        if (operand.getParentRegion()->isProperAncestor(block->getParent())) alive.insert(operand);
    });
    return alive;
  }

  // Collects the ops that compute `value` from values that are alive anyway, and narrower tiles in
  // `leaves`. Returns false if that is not cheap.
  bool collect(Value value, SetVector<Operation*>& ops, SetVector<Value>& leaves) {
    if (value.getParentBlock() != block || bytesPerThread(value) <= kFewBytes) return true;
    Operation* op = value.getDefiningOp();
    if (op && isCheap(op)) {
      for (Value operand : op->getOperands())
        if (!collect(operand, ops, leaves)) return false;
      ops.insert(op);
      return ops.size() <= kMostRecomputedOps;
    }
    auto element = cast<RankedTensorType>(value.getType()).getElementType();
    if (element.getIntOrFloatBitWidth() >= 32 && !staysInMemory(value)) return false;
    leaves.insert(value);
    return true;
  }

  std::optional<Candidate> candidateFor(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (value.getParentBlock() != block || !value.getDefiningOp() || !type ||
        !type.getElementType().isF32())
      return {};
    Candidate result{.value = value, .freed = bytesPerThread(value)};
    if (result.freed <= kFewBytes || !collect(value, result.ops, result.leaves)) return {};
    if (result.ops.empty() || result.leaves.empty()) return {};
    for (Value leaf : result.leaves) {
      if (opaque.contains(leaf)) continue;
      if (!staysInMemory(leaf)) result.freed -= bytesPerThread(leaf);
      result.work += bytesPerThread(leaf);
    }
    for (Operation* op : result.ops)
      if (Value made = op->getResult(0); registersOf(made) == made)
        result.work += bytesPerThread(made);
    if (result.freed <= 0) return {};
    return result;
  }

  void recompute(const Candidate& candidate) {
    Value value = candidate.value;
    Operation* first = nullptr;
    for (Operation* user : value.getUsers())
      if (Operation* here = userBehind(user); here && (!first || here->isBeforeInBlock(first)))
        first = here;
    OpBuilder builder(first);
    IRMapping mapping;
    for (Value leaf : candidate.leaves) mapping.map(leaf, hidden(leaf));
    for (Operation* op : candidate.ops) builder.clone(*op, mapping);
    Value again = mapping.lookup(value);
    value.replaceUsesWithIf(again, [&](OpOperand& use) {
      Operation* here = userBehind(use.getOwner());
      return here && !again.getDefiningOp()->isAncestor(use.getOwner()) &&
             !here->isBeforeInBlock(first);
    });
  }

  Value hidden(Value leaf) {
    Value& result = opaque[leaf];
    if (result) return result;
    OpBuilder builder(leaf.getContext());
    builder.setInsertionPointAfter(barrier);
    if (staysInMemory(leaf)) return result = builder.clone(*leaf.getDefiningOp())->getResult(0);
    return result = tgpu::OpaqueOp::create(builder, leaf.getLoc(), leaf.getType(), leaf);
  }

  Operation* barrier;
  Block* block;
  int64_t room;
  llvm::DenseMap<Value, Value> opaque;
};

// A loop, and the tiles of the block around it that are alive through it.
class LoopSite {
 public:
  LoopSite(Operation* loop, int64_t room) : loop(loop), block(loop->getBlock()), room(room) {}

  void run() { makeRoom(*this, room); }

 private:
  template <typename Site>
  friend int64_t makeRoom(Site& site, int64_t room);

  // Returns the op that contains the user, in a block of the loop or in the block after the loop.
  Operation* userIn(Block& inside, Operation* user) { return inside.findAncestorOpInBlock(*user); }
  Operation* userBehind(Operation* user) {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && loop->isBeforeInBlock(here) ? here : nullptr;
  }

  SetVector<Value> waiting() {
    SetVector<Value> all;
    for (Operation& op : *block) {
      if (&op == loop) break;
      for (Value result : op.getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation* user) {
              return loop->isProperAncestor(user) || userBehind(user);
            }))
          all.insert(result);
    }
    return all;
  }

  bool collect(Value value, SetVector<Operation*>& ops, SetVector<Value>& leaves) {
    if (value.getParentBlock() != block || bytesPerThread(value) <= kFewBytes) return true;
    Operation* op = value.getDefiningOp();
    if (op && isCheap(op)) {
      for (Value operand : op->getOperands())
        if (!collect(operand, ops, leaves)) return false;
      ops.insert(op);
      return ops.size() <= kMostRecomputedOps;
    }
    if (getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() >= 32) return false;
    leaves.insert(value);
    return true;
  }

  std::optional<Candidate> candidateFor(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.getElementType().isF32()) return {};
    Candidate result{.value = value, .freed = bytesPerThread(value)};
    if (result.freed <= kFewBytes || !collect(value, result.ops, result.leaves)) return {};
    if (result.ops.empty() || result.leaves.empty()) return {};
    for (Value leaf : result.leaves) {
      if (kept.contains(leaf)) continue;
      result.freed -= bytesPerThread(leaf);
      result.work += bytesPerThread(leaf);
    }
    for (Operation* op : result.ops)
      if (Value made = op->getResult(0); registersOf(made) == made)
        result.work += bytesPerThread(made);
    if (result.freed <= 0) return {};
    return result;
  }

  void recompute(const Candidate& candidate) {
    for (Region& region : loop->getRegions())
      for (Block& inside : region)
        recompute(candidate, inside.begin(), [&](Operation* user) { return userIn(inside, user); });
    recompute(candidate, std::next(Block::iterator(loop)),
              [&](Operation* user) { return userBehind(user); });
    for (Value leaf : candidate.leaves) kept.insert(leaf);
  }

  // Recomputes for the users that `userHere` maps to ops of the block of `start`.
  void recompute(const Candidate& candidate, Block::iterator start,
                 llvm::function_ref<Operation*(Operation*)> userHere) {
    Value value = candidate.value;
    Operation* first = nullptr;
    for (Operation* user : value.getUsers())
      if (Operation* here = userHere(user); here && (!first || here->isBeforeInBlock(first)))
        first = here;
    if (!first) return;
    IRMapping mapping;
    OpBuilder builder(first->getBlock(), start);
    for (Value leaf : candidate.leaves) {
      Value source = leaf;  // all loops copy the original value, not each other's copies
      while (auto earlier = source.getDefiningOp<tgpu::OpaqueOp>()) source = earlier.getSource();
      auto copy = tgpu::OpaqueOp::create(builder, leaf.getLoc(), leaf.getType(), source);
      copy.setCopied(true);
      mapping.map(leaf, copy);
    }
    builder.setInsertionPoint(first);
    for (Operation* op : candidate.ops) builder.clone(*op, mapping);
    value.replaceUsesWithIf(mapping.lookup(value),
                            [&](OpOperand& use) { return userHere(use.getOwner()) != nullptr; });
  }

  Operation* loop;
  Block* block;
  int64_t room;
  llvm::DenseSet<Value> kept;
};

class TgpuRecomputeAfterBarriersPass
    : public impl::TgpuRecomputeAfterBarriersPassBase<TgpuRecomputeAfterBarriersPass> {
 public:
  using TgpuRecomputeAfterBarriersPassBase::TgpuRecomputeAfterBarriersPassBase;

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    const int64_t registerBytes =
        arch->register_bytes(program::kWarpThreads * int64_t{numWarps} * ctasPerSm);
    const int64_t room = registerBytes * arch->tuning.waiting_quarters / 4;
    SetVector<Operation*> barriers, loops;
    getOperation().walk([&](Operation* op) {
      if (!meetsThreads(op) && !isa<tgpu::ClusterBarrierOp, tgpu::ClusterReceiveOp>(op)) return;
      barriers.insert(op);
      for (auto loop = op->getParentOfType<LoopLikeOpInterface>(); loop;
           loop = loop->getParentOfType<LoopLikeOpInterface>())
        loops.insert(loop);
    });
    for (Operation* loop : loops) LoopSite(loop, room).run();
    for (Operation* barrier : barriers) BarrierSite(barrier, room).run();
  }

 private:
  template <typename Site>
  friend int64_t makeRoom(Site& site, int64_t room);
};

}  // namespace

}  // namespace ligerdsl::compiler
