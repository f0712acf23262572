// tgpu-insert-barriers
//
// Walks the function in program order with the set of accesses since the last barrier. An op that
// conflicts with one of them (compiler/analysis/memory_access.h) gets a tgpu.barrier before it,
// which empties the set. If the threads may be in different CTAs, it gets a tgpu.cluster_barrier
// instead. In a cluster, accesses before a tgpu.barrier stay in the set, because other CTAs are not
// synchronised.
//
//   * Loops: the body is walked repeatedly, each time from the set at its end, until the set no
//     longer changes. This finds hazards between iterations, and adds no barrier where one
//     separates them already. If accesses before the loop still conflict with the body, the barrier
//     is before the loop.
//   * Loops over programs (tile.independent): iterations are as unordered as CTAs of a grid. One
//     iteration's accesses to global memory are no hazard for the next.
//   * Stages: for an access to one of two alternating stages, the set has the number of loop
//     iterations since the access. After one iteration the loop uses the other stage. After the
//     loop, this number is unknown.
//   * Branches: both branches start from the same set. The union of their sets is used after them.
//   * TMA copies access memory through the async proxy. All threads execute a proxy fence before
//     the barrier (tgpu.proxy_fence) if they have accessed memory that a copy overwrites, or
//     written memory that a TMA store reads. In a kernel with such copies, a barrier without a
//     fence leaves the threads' accesses in the set, for the copies alone. A wait at an mbarrier
//     orders a copy's writes before other uses of the memory.
//
// A remark reports each barrier that is only needed because two arguments may share memory.
//
// Conditions are scalars with the same value in all threads of a cluster, so barriers may be inside
// loops and branches.
//
// The shared memory of a CTA may be accessed only while the CTA runs. A tgpu.cluster_arrive
// therefore is at the kernel's start, after the initialisation of the exchanges' mbarriers. Its
// tgpu.cluster_wait is before the first op that contains a tgpu.remote_store or tgpu.cluster_send.
// No CTA ends too early: a cluster barrier follows a remote store before its data is loaded, and
// every send has a receive.
#include <utility>

#include "compiler/analysis/effects.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUINSERTBARRIERSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

// An access since the last barrier of its kind: CTA barrier, cluster barrier or proxy fence.
struct Since {
  MemoryAccess access;
  bool met = false;      // a barrier of the CTA followed
  bool ordered = false;  // a barrier of all threads that may access the memory followed
  bool shown = false;    // a proxy fence followed

  int key() const {
    return 32 * access.part + 8 * access.iterations + 4 * met + 2 * ordered + shown;
  }
};

// Pending accesses on any path to the current op. The key is the op and Since::key.
using Pending = llvm::MapVector<std::pair<Operation*, int>, Since>;

constexpr int kManyIterations = 2;

void insert(Pending& into, const Since& since) {
  into.insert({{since.access.op, since.key()}, since});
}

void join(Pending& into, const Pending& from) {
  for (const auto& [key, since] : from) insert(into, since);
}

enum class Barrier { none, cta, cluster };

// Reason for a barrier. Unless `certain`, the two accesses conflict only if their arguments
// overlap.
struct Cause {
  Operation *earlier = nullptr, *later = nullptr;
  bool certain = false;

  void add(const MemoryAccess& a, const MemoryAccess& b) {
    const bool inPlace =
        // Promised to be the same memory, or disjoint.
        a.aliasClass != 0 && a.aliasClass == b.aliasClass;
    const bool promisable =
        !a.shared && !b.shared && a.root && b.root && a.root != b.root && !inPlace;
    certain = certain || !promisable;
    if (!earlier) earlier = a.op, later = b.op;
  }
  void add(const Cause& other) {
    certain = certain || other.certain;
    if (!earlier) earlier = other.earlier, later = other.later;
  }
  void remark() const {
    if (certain || !earlier || earlier == later) return;
    missed(later, RemarkId::barrier_between_arguments)
        << "a barrier of the CTA is needed before this: it may use the same memory as the access "
           "at "
        << placeOf(earlier)
        << ", through another argument; promise that the arguments do not overlap (no_alias)";
  }
};

struct Wanted {
  Wanted(Barrier barrier = Barrier::none, bool fence = false) : barrier(barrier), fence(fence) {}
  static Wanted proxyFence() {
    Wanted wanted(Barrier::cta, /*fence=*/true);
    wanted.cause.certain = true;
    return wanted;
  }
  void add(const Wanted& other) {
    barrier = std::max(barrier, other.barrier);
    fence = fence || other.fence;
    cause.add(other.cause);
  }

  Barrier barrier;
  bool fence;  // proxy fence before the barrier of the CTA
  Cause cause;
};

// Returns the pending accesses after `iterations` more iterations of the loop.
Pending afterIterations(const Pending& pending, scf::ForOp loop, int iterations) {
  Pending result;
  for (auto [key, since] : pending) {
    MemoryAccess& access = since.access;
    if (access.phase && access.phase.getOwner() == loop.getBody())
      access.iterations = std::min(access.iterations + iterations, kManyIterations);
    insert(result, since);
  }
  return result;
}

class Inserter {
 public:
  Inserter(bool cluster, bool copies) : cluster(cluster), copies(copies) {}

  void walk(Block& block, Pending& pending) {
    for (Operation& op : llvm::make_early_inc_range(block)) {
      if (synchronisesThreads(&op))
        pass({Barrier::cta, fencesProxies(&op)}, pending);
      else if (isa<tgpu::ClusterBarrierOp>(op))
        pass(Barrier::cluster, pending);
      else if (auto loop = dyn_cast<scf::ForOp>(op))
        walkLoop(loop, pending, [&](Pending& state) {
          walk(*loop.getBody(), state);
          Pending exit = afterIterations(state, loop, kManyIterations);
          state = afterIterations(state, loop, 1);
          return exit;
        });
      else if (auto loop = dyn_cast<scf::WhileOp>(op))
        walkLoop(loop, pending, [&](Pending& state) {
          walk(loop.getBefore().front(), state);
          Pending exit = state;
          walk(loop.getAfter().front(), state);
          if (!loop->hasAttr(tile::kIndependentAttr)) return exit;
          join(exit, state);
          state.remove_if([](const auto& entry) { return !entry.second.access.shared; });
          return exit;
        });
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        walkIf(branch, pending);
      else
        addAll(op, pending);
    }
  }

 private:
  void addAll(Operation& op, Pending& pending) {
    if (auto fill = dyn_cast<tgpu::RingFillOp>(op))
      for (const MemoryAccess& copy : ligerdsl::compiler::tensorCopies(fill))
        insertBefore(fill, wantedBefore(copy, pending), pending);
    const FailureOr<MemoryAccesses> accesses = memoryAccesses(&op);
    for (const MemoryAccess& access : *accesses) {  // not a failure: verifyEffects has checked it
      insertBefore(access.op, wantedBefore(access, pending), pending);
      insert(pending, {access});
    }
  }

  Wanted wantedBefore(const MemoryAccess& access, const Pending& pending) {
    Wanted wanted;
    for (const auto& [key, since] : pending) {
      const MemoryAccess& earlier = since.access;
      if (!since.shown && needsProxyFence(earlier, access)) wanted.add(Wanted::proxyFence());
      if (since.ordered || !needsBarrier(earlier, access)) continue;
      bool across = cluster && conflictsAcrossCtas(earlier, access);
      Wanted one = across ? Barrier::cluster : since.met ? Barrier::none : Barrier::cta;
      if (one.barrier != Barrier::none) one.cause.add(earlier, access);
      wanted.add(one);
    }
    return wanted;
  }

  void pass(const Wanted& by, Pending& pending) {
    Pending left;
    for (auto [key, since] : pending) {
      since.shown = since.shown || by.fence;
      since.ordered = since.ordered || !cluster || by.barrier == Barrier::cluster;
      since.met = !since.ordered;
      const bool mayMeetCopies =
          copies && since.access.shared && !since.access.async && !since.shown;
      if (!since.ordered || mayMeetCopies) insert(left, since);
    }
    pending = std::move(left);
  }

  void insertBefore(Operation* op, const Wanted& wanted, Pending& pending) {
    if (wanted.barrier == Barrier::none) return;
    found.add(wanted);
    if (inserting) {
      wanted.cause.remark();
      OpBuilder builder(op);
      if (wanted.barrier == Barrier::cluster) tgpu::ClusterBarrierOp::create(builder, op->getLoc());
      if (wanted.barrier == Barrier::cta || wanted.fence) {
        auto barrier = tgpu::BarrierOp::create(builder, op->getLoc());
        if (wanted.fence) barrier->setAttr(kProxyFenceAttr, builder.getUnitAttr());
      }
    }
    pass(wanted, pending);
  }

  // `iterate` walks one iteration from the state at the loop's head. It leaves the state of the
  // back edge in its argument and returns the state at the loop's exit.
  template <typename Iterate>
  void walkLoop(Operation* loop, Pending& pending, Iterate iterate) {
    Pending carried;
    for (bool stable = false; !stable;) {
      Pending state = carried;
      iterate(state);
      stable = state.size() == carried.size() && llvm::all_of(state, [&](const auto& entry) {
                 return carried.count(entry.first) > 0;
               });
      carried = std::move(state);
    }
    insertBefore(loop, conflicts(pending, iterate), pending);
    join(carried, pending);
    Pending exit = iterate(carried);
    join(pending, exit);
  }

  // Returns the barrier that an iteration from `state` would add.
  template <typename Iterate>
  Wanted conflicts(Pending state, Iterate iterate) {
    bool outerInserting = std::exchange(inserting, false);
    Wanted outerFound = std::exchange(found, Wanted());
    iterate(state);
    inserting = outerInserting;
    return std::exchange(found, std::move(outerFound));
  }

  void walkIf(scf::IfOp branch, Pending& pending) {
    Pending taken = pending, skipped = pending;
    walk(branch.getThenRegion().front(), taken);
    if (!branch.getElseRegion().empty()) walk(branch.getElseRegion().front(), skipped);
    pending = std::move(taken);
    join(pending, skipped);
  }

  bool cluster;
  bool copies;            // the kernel has TMA copies or TMA stores
  bool inserting = true;  // if false, only `found` is set
  Wanted found;
};

// Returns the position after the initialisation of exchange mbarriers. A CTA arrives only then,
// because other CTAs may send once it has arrived.
Block::iterator readyForExchange(Block& body) {
  Block::iterator ready = body.begin();
  for (Operation& op : body)
    if (auto init = dyn_cast<tgpu::InitMbarriersOp>(op); init && isOfExchange(init.getBarriers()))
      ready = std::next(op.getIterator());
  return ready;
}

void announceCtas(func::FuncOp func) {
  Block& body = func.getBody().front();
  auto touches = [](Operation& op) {
    return op
        .walk([](Operation* inner) {
          bool found = isa<tgpu::RemoteStoreOp, tgpu::ClusterSendOp, tgpu::ClusterBarrierOp>(inner);
          return found ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  auto first = llvm::find_if(body, touches);
  if (first == body.end() || isa<tgpu::ClusterBarrierOp>(*first)) return;
  OpBuilder atFirst(&*first), ready(&body, readyForExchange(body));
  // A ring that TMA copies fill synchronises the cluster. This must not be between an arrive and
  // its wait.
  bool meets = false;
  func.walk(
      [&](tgpu::RingOp ring) { meets |= ring.getType().getFill() == tgpu::RingFill::tensor; });
  tgpu::ClusterArriveOp::create(meets ? atFirst : ready, func.getLoc());
  tgpu::ClusterWaitOp::create(atFirst, first->getLoc());
}

class TgpuInsertBarriersPass : public impl::TgpuInsertBarriersPassBase<TgpuInsertBarriersPass> {
 public:
  using TgpuInsertBarriersPassBase::TgpuInsertBarriersPassBase;

  void runOnOperation() override {
    if (failed(verifyEffects(getOperation()))) return signalPassFailure();
    Pending pending;
    const bool cluster = getOperation()->hasAttr(kNumCtasAttr);
    const bool copies = getOperation()
                            .walk([](Operation* op) {
                              auto ring = dyn_cast<tgpu::RingOp>(op);
                              const bool byTensor =
                                  ring && ring.getType().getFill() == tgpu::RingFill::tensor;
                              const bool found = byTensor || isa<tgpu::TensorStoreOp>(op);
                              return found ? WalkResult::interrupt() : WalkResult::advance();
                            })
                            .wasInterrupted();
    for (Block& block : getOperation().getBody()) Inserter(cluster, copies).walk(block, pending);
    if (cluster) announceCtas(getOperation());
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
