// tgpu-recompute-after-barriers
//
// A tile that is needed before and after a barrier stays in registers while the CTA exchanges
// values. If such tiles would fill more than a given part of a thread's registers (GpuTuning),
// those computed from narrower tiles are recomputed:
//
//   1. At every barrier, and at every wait of a cluster exchange, sum the bytes of the tiles that
//      are live across it. A broadcast tile counts as its source.
//   2. While the sum is too large, recompute the tile of 32-bit elements with the least work per
//      freed byte. Only cheap ops may compute it, from narrower tiles, values from outside the
//      block, or tiles of few registers.
//   3. Only the narrower tile stays in registers. It passes through tgpu.opaque; otherwise LLVM and
//      ptxas would recognise the result and keep it. A narrower tile that stays in memory during
//      the iteration (staged in shared memory, or a weight in L1) is read again instead.
//   4. If the sum is still too large, a remark reports the excess.
//
// Tiles that are computed before a loop and used in or after it stay in registers through all
// iterations. They are handled in the same way, for each loop that contains a barrier.
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

// Returns true if memory holds the value until the iteration ends. It is then in a slot that each
// thread fills for itself, or in a read-only argument at a loop-invariant index (so it stays in
// L1).
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

// A tile that `ops` can recompute from `leaves`.
struct Candidate {
  Value value;
  SetVector<Operation*> ops;
  SetVector<Value> leaves;
  // Bytes of freed registers, and bytes of the results of the repeated ops.
  int64_t freed = 0, work = 0;

  double price() const { return static_cast<double>(work) / static_cast<double>(freed); }
};

// Recomputes tiles of the site, cheapest first, until the others fit in `room` bytes. Returns the
// excess bytes that remain.
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
  Operation* userAfter(Operation* user) {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && barrier->isBeforeInBlock(here) ? here : nullptr;
  }

  SetVector<Value> waiting() {
    SetVector<Value> alive;
    auto add = [&](Value value) {
      if (llvm::any_of(value.getUsers(),
                       [&](Operation* user) { return userAfter(user) != nullptr; }))
        alive.insert(value);
    };
    for (BlockArgument argument : block->getArguments()) add(argument);
    for (Operation& op : *block) {
      if (&op == barrier) break;
      for (Value result : op.getResults()) add(result);
    }
    // Values from outside the block stay live through all iterations.
    block->walk([&](Operation* op) {
      for (Value operand : op->getOperands())
        if (operand.getParentRegion()->isProperAncestor(block->getParent())) alive.insert(operand);
    });
    return alive;
  }

  // Collects the ops that compute `value` from `leaves` (narrower tiles) and from values that are
  // live anyway. Returns false if that is not cheap.
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
      if (Operation* here = userAfter(user); here && (!first || here->isBeforeInBlock(first)))
        first = here;
    OpBuilder builder(first);
    IRMapping mapping;
    for (Value leaf : candidate.leaves) mapping.map(leaf, hidden(leaf));
    for (Operation* op : candidate.ops) builder.clone(*op, mapping);
    Value again = mapping.lookup(value);
    value.replaceUsesWithIf(again, [&](OpOperand& use) {
      Operation* here = userAfter(use.getOwner());
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

// A loop, and the tiles of its parent block that are live through it.
class LoopSite {
 public:
  LoopSite(Operation* loop, int64_t room) : loop(loop), block(loop->getBlock()), room(room) {}

  void run() { makeRoom(*this, room); }

 private:
  template <typename Site>
  friend int64_t makeRoom(Site& site, int64_t room);

  // Return the op that contains the user: in `inside`, a block of the loop (userIn), or after the
  // loop in the loop's own block (userAfter). Null if there is none.
  Operation* userIn(Block& inside, Operation* user) { return inside.findAncestorOpInBlock(*user); }
  Operation* userAfter(Operation* user) {
    Operation* here = block->findAncestorOpInBlock(*user);
    return here && loop->isBeforeInBlock(here) ? here : nullptr;
  }

  SetVector<Value> waiting() {
    SetVector<Value> all;
    for (Operation& op : *block) {
      if (&op == loop) break;
      for (Value result : op.getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation* user) {
              return loop->isProperAncestor(user) || userAfter(user);
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
              [&](Operation* user) { return userAfter(user); });
    for (Value leaf : candidate.leaves) kept.insert(leaf);
  }

  // Recomputes the candidate at `start`, for users that `userHere` maps to ops of that block.
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
      if (!synchronisesThreads(op) && !isa<tgpu::ClusterBarrierOp, tgpu::ClusterReceiveOp>(op))
        return;
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
