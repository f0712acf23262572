// Rings: slots of shared memory that copies fill while others are read. PTX ISA: cp.async, and mbarrier where bulk copies
// (bulk_fill.cpp) or tensor copies (tensor_fill.cpp) fill them.
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/bulk_fill.h"
#include "compiler/target/nvptx/load_matrix.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/slot_factor.h"
#include "compiler/target/nvptx/tensor_fill.h"
#include "compiler/target/nvptx/tile_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void meet(ThreadLowering& t) {
  NVVM::Barrier0Op::create(t.b, t.loc);
}

// Whether copies of each CTA of the cluster fill slots of all.
bool isShared(ThreadLowering& t, tgpu::RingType ring) {
  return t.options.num_ctas > 1 && ring.getFill() == tgpu::RingFill::tensor;
}

// A ring's pieces are the addresses of its parts, and of its barriers where it has any.
LogicalResult lowerRing(ThreadLowering& t, tgpu::RingOp op) {
  if (!op.getOffsets()) return op.emitOpError("has no offsets: run tgpu-allocate-shared first");
  Pieces places;
  for (int64_t offset : op.getOffsetsAttr().asArrayRef()) places.push_back(t.sharedPointer(offset));
  t.define(op, places);
  if (!op.getType().hasBarriers()) return success();
  if (!t.hasBulkCopies()) return op.emitOpError("needs sm_90 or later, got ") << t.options.arch;
  const int64_t slots = op.getType().getSlots();
  initMbarriers(t, places.back(), slots);
  if (isShared(t, op.getType())) {
    initMbarriers(t, places.back(), slots, slots, t.options.num_ctas - 1);
    meetInCluster(t);
  } else {
    meet(t);
  }
  return success();
}

Value slotOf(ThreadLowering& t, Value ring, Value slot, int64_t part) {
  auto type = cast<tgpu::RingType>(ring.getType());
  return bufferPart(t, t.pieces(ring)[part], t.scalar(slot), bufferBytes(type.part(part)));
}

// The copies of one position to a slot.
class SlotCopies {
 public:
  using Mover = TileAccess::Mover;

  SlotCopies(ThreadLowering& t, tgpu::RingFillOp op, ValueRange indices) : t(t), op(op), indices(indices) {}

  LogicalResult start() {
    if (Value inside = areInside()) return startWhere(inside);
    return copyAll(Mover::copy);
  }

 private:
  static constexpr int64_t kBytes = 16;  // of a copy

  ValueRange indicesOf(int64_t part) { return indices.slice(op.firstDim(part), op.shapeOf(part).size()); }
  TileAccess tileOf(int64_t part, Mover mover) {
    return {
        t,    op.getViews()[part], indicesOf(part), op.shapeOf(part), op.tileOf(part), {}, TileAccess::OffsetKind::none,
        mover};
  }

  // Of tiles that all threads copy for each other: factors of products, most of which are inside. Null: all of them, or
  // nobody asks.
  Value areInside() {
    Value all;
    if (op.getRing().getType().getFill() != tgpu::RingFill::async || op->hasAttr(kSeldomAttr)) return all;
    for (size_t part = 0; part < op.getViews().size(); ++part)
      all = t.both(all, tileOf(part, Mover::copy_inside).isInside());
    return all;
  }

  // Chunks at edges take more instructions than copies do.
  LogicalResult startWhere(Value inside) {
    auto branch = scf::IfOp::create(t.b, t.loc, inside, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(branch.thenBlock());
    if (failed(copyAll(Mover::copy_inside))) return failure();
    t.b.setInsertionPointToStart(branch.elseBlock());
    return copyAll(Mover::copy);
  }

  LogicalResult copyAll(Mover mover) {
    for (size_t part = 0; part < op.getViews().size(); ++part)
      if (failed(copyPart(part, mover))) return failure();
    return success();
  }

  // cp.async fills up with zeros what lies outside of the view.
  LogicalResult copyPart(int64_t part, Mover mover) {
    Value slot = slotOf(t, op.getRing(), op.getSlot(), part);
    TileAccess from = tileOf(part, mover);
    BufferAccess to(t, op.getRing().getType().part(part), slot, op.tileOf(part));
    if (from.chunk * from.bytes() != kBytes || to.chunk != from.chunk)
      return op.emitOpError("copies ") << kBytes << " bytes at a time, but a thread's neighbouring elements are "
                                       << std::min(from.chunk, to.chunk) * from.bytes() << " bytes";
    for (int64_t reg = 0; reg < from.registers(); reg += from.chunk) {
      Value bytes = from.bytesInside(reg);
      Value target = sharedAddress(t, to.pointer(reg));
      if (bytes)
        inlinePtx(t, {}, {target, from.pointer(reg), bytes}, "cp.async.cg.shared.global [$0], [$1], 16, $2;",
                  "r,l,r,~{memory}");
      else
        inlinePtx(t, {}, {target, from.pointer(reg)}, "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}");
    }
    return success();
  }

  ThreadLowering& t;
  tgpu::RingFillOp op;
  ValueRange indices;
};

LogicalResult lowerRingFill(ThreadLowering& t, tgpu::RingFillOp op) {
  const tgpu::RingFill by = op.getRing().getType().getFill();
  if (by == tgpu::RingFill::bulk) return fillByBulkCopies(t, op);
  if (by == tgpu::RingFill::tensor) return fillByTensorCopies(t, op);
  Block& body = op.getPosition().front();
  t.define(body.getArgument(0), {t.scalar(op.getFirst())});
  if (failed(t.lowerBlock(body))) return failure();
  t.loc = op.getLoc();
  if (failed(SlotCopies(t, op, body.getTerminator()->getOperands()).start())) return failure();
  if (!op.getOpen()) inlinePtx(t, {}, {}, "cp.async.commit_group;", "~{memory}");
  return success();
}

LogicalResult lowerRingAwait(ThreadLowering& t, tgpu::RingAwaitOp op) {
  const tgpu::RingType ring = op.getRing().getType();
  if (ring.hasBarriers()) {
    Value barrier = mbarrierAddress(t, t.pieces(op.getRing()).back(), t.scalar(op.getSlot()));
    waitForPhase(t, barrier, t.scalar(op.getParity()), "");
    return success();
  }
  inlinePtx(t, {}, {}, "cp.async.wait_group " + std::to_string(*op.getPending()) + ";", "~{memory}");
  if (op.getForWgmma()) showToAsyncProxy(t);
  if (ring.getFill() == tgpu::RingFill::async) meet(t);
  return success();
}

// Whether warps may meet in memory there: what it writes, or what the kernel writes somewhere and it reads. Nothing writes what
// a ring is filled from.
bool mayMeetInMemory(Operation* op) {
  if (isa<tgpu::RingFillOp>(op)) return false;
  const FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
  auto kernel = op->getParentOfType<func::FuncOp>();
  return failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
           if (access.shared || access.writes) return access.writes && !access.shared;
           return kernel
               .walk([&](Operation* other) {
                 return other != kernel && mayWriteTo(other, access) ? WalkResult::interrupt() : WalkResult::advance();
               })
               .wasInterrupted();
         });
}

// The slot of the turn that a release is of, whose warps meet nowhere but at rings, and whose products start and end behind it:
// there warps need not wait for each other, only the one that fills for those that have read. Null for others.
Value slotOfLooseTurn(tgpu::RingReleaseOp release) {
  auto loop = dyn_cast<scf::ForOp>(release->getParentOp());
  if (!loop) return {};
  Value slot;
  bool started = false, alone = true;
  for (Operation& op : *loop.getBody()) {
    if (&op == release) alone &= !started;
    started |= isa<tgpu::WgmmaOp>(op);
    if (auto await = dyn_cast<tgpu::RingAwaitOp>(op); await && await->isBeforeInBlock(release)) slot = await.getSlot();
  }
  loop.getBody()->walk([&](Operation* op) {
    alone &= !mayMeetInMemory(op);
    if (op->getDialect() != release->getDialect()) return;
    if (isa<tgpu::RingReleaseOp, tgpu::RingFillOp, tgpu::RingAwaitOp>(op))
      alone &= op->getOperand(0) == release.getRing();
    else
      alone &= isa<tgpu::YieldOp, tgpu::RingReadOp, tgpu::WgmmaOp, tgpu::WgmmaWaitOp, tgpu::ReduceInWarpOp,
                   tgpu::ConvertLayoutOp>(op);
  });
  return alone ? slot : Value();
}

// A hardware barrier of each slot, at which the filling warp, the first, waits until all have come. Others come and go on, at most as many turns
// ahead as there are slots filled: a barrier is over before it is another turn's. Their numbers are constants: a CTA has all that a
// number in a register could be.
void letFill(ThreadLowering& t, Value slot, int64_t slots) {
  Value fills =
      arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, t.threadInCta(), t.constant(program::kWarpThreads));
  Value goes = arith::XOrIOp::create(t.b, t.loc, fills, t.constant(1, 1));
  const std::string threads = std::to_string(program::kWarpThreads * t.options.num_warps);
  for (int64_t number = 0; number < slots; ++number) {
    Value here = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, t.scalar(slot), t.constant(number));
    const std::string barrier = std::to_string(number + 1) + ", " + threads;
    inlinePtx(t, {}, {t.both(here, fills), t.both(here, goes)},
              "@$0 bar.sync " + barrier + ";\n@$1 bar.arrive " + barrier + ";", "b,b,~{memory}");
  }
}

// Behind the meeting of this CTA: the slot before the one at work is free here, and the filling thread waits until it is in the
// others. It is as many times free before as the slot at work was filled: in turn 0 the last slot is, which nothing has filled.
LogicalResult awaitOthers(ThreadLowering& t, tgpu::RingReleaseOp op) {
  tgpu::RingAwaitOp await;
  for (auto other : op->getBlock()->getOps<tgpu::RingAwaitOp>())
    if (other.getRing() == op.getRing() && other->isBeforeInBlock(op)) await = other;
  if (!await) return op.emitOpError("has no await before it, whose slot and parity a cluster's CTAs go by");
  const int64_t slots = op.getRing().getType().getSlots();
  inThreadsBelow(t, t.constant(1), [&] {
    Value slot = t.scalar(await.getSlot());
    Value first = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, slot, t.constant(0));
    Value before = arith::SubIOp::create(t.b, t.loc, slot, t.constant(1));
    before = arith::SelectOp::create(t.b, t.loc, first, t.constant(slots - 1), before);
    Value number = arith::AddIOp::create(t.b, t.loc, before, t.constant(slots));
    Value barrier = mbarrierAddress(t, t.pieces(op.getRing()).back(), number);
    arriveInOthers(t, barrier);
    waitForPhase(t, barrier, t.scalar(await.getParity()), "");
  });
  return success();
}

// What tensor copies fill is read by wgmma, which is of their proxy, and waited for.
LogicalResult lowerRingRelease(ThreadLowering& t, tgpu::RingReleaseOp op) {
  constexpr int64_t kBarriers = 16;  // of a CTA; the first one is that of all
  const tgpu::RingType ring = op.getRing().getType();
  if (isShared(t, ring) && op->hasAttr(kEmptiedAttr)) {
    meetInCluster(t);
    return success();
  }
  if (ring.getFill() == tgpu::RingFill::tensor) {
    const Value slot = ring.getSlots() < kBarriers ? slotOfLooseTurn(op) : Value();
    if (slot)
      letFill(t, slot, ring.getSlots());
    else
      meet(t);
    return isShared(t, ring) ? awaitOthers(t, op) : success();
  }
  showToAsyncProxy(t);
  meet(t);
  return success();
}

// Whether the elements of a chunk come before the limit, which is a multiple of 16 bytes: a chunk lies on one side.
class Limit {
 public:
  Limit(ThreadLowering& t, tgpu::RingReadOp op, const BufferAccess& access) : t(t), access(access) {
    if (!op.getLimit()) return;
    limit = t.scalar(op.getLimit());
    const int64_t part = op.getRing().getType().part(op.getPart()).getShape().back();
    if (part >= cast<RankedTensorType>(op.getType()).getShape().back()) return;
    Value before = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(part));
    limit = arith::SubIOp::create(t.b, t.loc, limit, before);
  }
  Value inside(int64_t reg) const {
    if (!limit) return {};
    auto [base, offset] = t.coordinate(access.layout, reg, access.layout.map.rank() - 1);
    Value left = arith::SubIOp::create(t.b, t.loc, limit, base);
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, left, t.constant(offset));
  }

 private:
  ThreadLowering& t;
  const BufferAccess& access;
  Value limit;
};

LogicalResult lowerRingRead(ThreadLowering& t, tgpu::RingReadOp op) {
  auto tile = cast<RankedTensorType>(op.getType());
  if (op.getRing().getType().getFill() == tgpu::RingFill::tensor)
    return op.emitOpError("is of a ring that tgpu.wgmma alone may read: tensor copies fill it");
  if (factorInSlot(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<tgpu::WgmmaOp>)) return success();
  const tgpu::MemDescType part = op.getRing().getType().part(op.getPart());
  const ArrayRef<int64_t> begin = op.getBegin().value_or(ArrayRef<int64_t>());
  Value slot = slotOf(t, op.getRing(), op.getSlot(), op.getPart());
  if (!op.getLimit())
    if (const auto matrices = loadMatrices(t, part, slot, tile, begin))
      return t.defineElements(op, *matrices), success();
  BufferAccess access(t, part, slot, tile, begin);
  Type element = t.elementType(tile);
  const Limit limit(t, op, access);
  SmallVector<Value> elements, pads;
  if (op.getLimit()) {
    TypedAttr pad = op.getPadAttr() ? op.getPadAttr() : t.b.getZeroAttr(element);
    pads.assign(access.chunk, arith::ConstantOp::create(t.b, t.loc, pad));
  }
  for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk)
    llvm::append_range(elements,
                       loadElements(t, access.pointer(reg), element, access.chunk, limit.inside(reg), pads, {}));
  t.defineElements(op, elements);
  return success();
}

}  // namespace

void addRingLowerings(LoweringTable& table) {
  table.add<tgpu::RingOp, lowerRing>();
  table.add<tgpu::RingFillOp, lowerRingFill>();
  table.add<tgpu::RingAwaitOp, lowerRingAwait>();
  table.add<tgpu::RingReadOp, lowerRingRead>();
  table.add<tgpu::RingReleaseOp, lowerRingRelease>();
}

}  // namespace ligerdsl::compiler::nvptx
