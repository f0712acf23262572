// Rings: slots of shared memory that copies fill while other slots are read. The copies are
// cp.async, bulk copies (bulk_fill.cpp) or TMA copies (tensor_fill.cpp). Bulk and TMA copies signal
// mbarriers. PTX ISA: cp.async, mbarrier.
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/row_alignment.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/bulk_fill.h"
#include "compiler/target/nvptx/load_matrix.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/slot_operand.h"
#include "compiler/target/nvptx/tensor_fill.h"
#include "compiler/target/nvptx/tile_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void syncCta(ThreadLowering& t) {
  NVVM::Barrier0Op::create(t.b, t.loc);
}

// Returns true if each CTA's copies may fill slots in all CTAs of the cluster.
bool isShared(ThreadLowering& t, tgpu::RingType ring) {
  return t.options.num_ctas > 1 && ring.getFill() == tgpu::RingFill::tensor;
}

// The pieces of a ring are the addresses of its parts, then of its mbarriers if it has any.
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
    syncCluster(t);
  } else {
    syncCta(t);
  }
  return success();
}

Value slotOf(ThreadLowering& t, Value ring, Value slot, int64_t part) {
  auto type = cast<tgpu::RingType>(ring.getType());
  return bufferPart(t, t.pieces(ring)[part], t.scalar(slot), bufferBytes(type.part(part)));
}

// The cp.async copies that fill one slot.
class SlotCopies {
 public:
  using Mover = TileAccess::Mover;

  SlotCopies(ThreadLowering& t, tgpu::RingFillOp op, ValueRange indices)
      : t(t), op(op), indices(indices) {}

  LogicalResult start() {
    if (Value inside = areInside()) return startWhere(inside);
    return copyAll(Mover::copy);
  }

 private:
  static constexpr int64_t kBytes = 16;  // bytes per copy

  ValueRange indicesOf(int64_t part) {
    return indices.slice(op.firstDim(part), op.shapeOf(part).size());
  }
  // Returns a part's alignment offset, or null if it has none.
  Value alignmentOffsetOf(int64_t part) {
    auto with = op->getAttrOfType<DenseI64ArrayAttr>(kOffsetPartsAttr);
    if (!with) return {};
    const ArrayRef<int64_t> parts = with.asArrayRef();
    const auto* found = llvm::find(parts, part);
    if (found == parts.end()) return {};
    return indices[op.firstDim(op.getViews().size()) + (found - parts.begin())];
  }
  TileAccess tileOf(int64_t part, Mover mover) {
    return {t,
            op.getViews()[part],
            indicesOf(part),
            op.shapeOf(part),
            op.tileOf(part),
            alignmentOffsetOf(part),
            TileAccess::OffsetKind::aligns,
            mover};
  }

  // Returns a predicate that is true if the tiles of all parts are inside their views. Returns null
  // if they are proved to be inside, or if a branch would not pay. A branch pays in rings that all
  // threads read (RingFill::async): such rings hold matmul operands, whose tiles are mostly inside.
  // It does not pay in a fill that seldom runs (kSeldomAttr).
  Value areInside() {
    Value all;
    if (op.getRing().getType().getFill() != tgpu::RingFill::async || op->hasAttr(kSeldomAttr))
      return all;
    for (size_t part = 0; part < op.getViews().size(); ++part)
      all = t.both(all, tileOf(part, Mover::copy_inside).isInside());
    return all;
  }

  // Branches on `inside` to copies without masks: masks take more instructions than the copies.
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

  // Copies one part. cp.async writes zeros for bytes outside the view.
  LogicalResult copyPart(int64_t part, Mover mover) {
    Value slot = slotOf(t, op.getRing(), op.getSlot(), part);
    TileAccess from = tileOf(part, mover);
    BufferAccess to(t, op.getRing().getType().part(part), slot, op.tileOf(part));
    if (from.chunk * from.bytes() != kBytes || to.chunk != from.chunk)
      return op.emitOpError("expected ") << kBytes << " contiguous bytes per thread, got "
                                         << std::min(from.chunk, to.chunk) * from.bytes();
    for (int64_t reg = 0; reg < from.registers(); reg += from.chunk) {
      Value bytes = from.bytesInside(reg);
      Value target = sharedAddress(t, to.pointer(reg));
      if (bytes)
        inlinePtx(t, {}, {target, from.pointer(reg), bytes},
                  "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}");
      else
        inlinePtx(t, {}, {target, from.pointer(reg)}, "cp.async.cg.shared.global [$0], [$1], 16;",
                  "r,l,~{memory}");
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
  inlinePtx(t, {}, {}, "cp.async.wait_group " + std::to_string(*op.getPending()) + ";",
            "~{memory}");
  if (op.getForWgmma()) fenceAsyncProxy(t);
  if (ring.getFill() == tgpu::RingFill::async) syncCta(t);
  return success();
}

// Returns true if warps may exchange data through global memory in this op. Such an op writes
// global memory, or reads memory that the kernel writes somewhere. Ring fills never do, because the
// kernel does not write the memory that they read.
bool mayCommunicateThroughMemory(Operation* op) {
  if (isa<tgpu::RingFillOp>(op)) return false;
  const FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
  auto kernel = op->getParentOfType<func::FuncOp>();
  return failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
           if (access.shared || access.writes) return access.writes && !access.shared;
           return kernel
               .walk([&](Operation* other) {
                 return other != kernel && mayWriteTo(other, access) ? WalkResult::interrupt()
                                                                     : WalkResult::advance();
               })
               .wasInterrupted();
         });
}

// Returns the current slot of a loop whose warps need not synchronise when they release it. Then
// only the filling warp waits, until all warps have read the slot. Returns null for other loops.
// Two conditions must hold:
// - The warps of the loop exchange data through this ring only.
// - The wgmmas of an iteration start after its release.
Value slotOfIndependentWarps(tgpu::RingReleaseOp release) {
  auto loop = dyn_cast<scf::ForOp>(release->getParentOp());
  if (!loop) return {};
  Value slot;
  bool started = false, alone = true;
  for (Operation& op : *loop.getBody()) {
    if (&op == release) alone &= !started;
    started |= isa<tgpu::WgmmaOp>(op);
    if (auto await = dyn_cast<tgpu::RingAwaitOp>(op); await && await->isBeforeInBlock(release))
      slot = await.getSlot();
  }
  loop.getBody()->walk([&](Operation* op) {
    alone &= !mayCommunicateThroughMemory(op);
    if (op->getDialect() != release->getDialect()) return;
    if (isa<tgpu::RingReleaseOp, tgpu::RingFillOp, tgpu::RingAwaitOp>(op))
      alone &= op->getOperand(0) == release.getRing();
    else
      alone &= isa<tgpu::YieldOp, tgpu::RingReadOp, tgpu::WgmmaOp, tgpu::WgmmaWaitOp,
                   tgpu::ReduceInWarpOp, tgpu::ConvertLayoutOp>(op);
  });
  return alone ? slot : Value();
}

// Makes the filling warp, warp 0, wait at the slot's hardware barrier until all warps have arrived.
// The other warps arrive and continue. They are ahead by at most the number of filled slots, so a
// barrier completes before its next use. Barrier numbers are constants, because with a number in a
// register a CTA would occupy all hardware barriers.
void syncFillingWarp(ThreadLowering& t, Value slot, int64_t slots) {
  Value fills = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, t.threadInCta(),
                                      t.constant(program::kWarpThreads));
  Value goes = arith::XOrIOp::create(t.b, t.loc, fills, t.constant(1, 1));
  const std::string threads = std::to_string(program::kWarpThreads * t.options.num_warps);
  for (int64_t number = 0; number < slots; ++number) {
    Value here = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, t.scalar(slot),
                                       t.constant(number));
    const std::string barrier = std::to_string(number + 1) + ", " + threads;
    inlinePtx(t, {}, {t.both(here, fills), t.both(here, goes)},
              "@$0 bar.sync " + barrier + ";\n@$1 bar.arrive " + barrier + ";", "b,b,~{memory}");
  }
}

// Waits until the other CTAs have released the ring's slot that precedes the current one. This
// CTA's threads have synchronised, so the slot is free in this CTA. The filling thread arrives at
// the mbarriers of the other CTAs, then waits for their arrivals. The phase has the same number,
// and thus parity, as the current slot's fill. Iteration 0 releases the last slot, which is empty.
LogicalResult awaitOthers(ThreadLowering& t, tgpu::RingReleaseOp op) {
  tgpu::RingAwaitOp await;
  for (auto other : op->getBlock()->getOps<tgpu::RingAwaitOp>())
    if (other.getRing() == op.getRing() && other->isBeforeInBlock(op)) await = other;
  if (!await)
    return op.emitOpError("expected a tgpu.ring_await of this ring before it in its block");
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

// Slots that TMA copies fill need no proxy fence: only wgmma reads these slots, through the same
// proxy, and has completed its reads.
LogicalResult lowerRingRelease(ThreadLowering& t, tgpu::RingReleaseOp op) {
  constexpr int64_t kBarriers = 16;  // hardware barriers per CTA; number 0 synchronises all threads
  const tgpu::RingType ring = op.getRing().getType();
  if (isShared(t, ring) && op->hasAttr(kEmptiedAttr)) {
    syncCluster(t);
    return success();
  }
  if (ring.getFill() == tgpu::RingFill::tensor) {
    const Value slot = ring.getSlots() < kBarriers ? slotOfIndependentWarps(op) : Value();
    if (slot)
      syncFillingWarp(t, slot, ring.getSlots());
    else
      syncCta(t);
    return isShared(t, ring) ? awaitOthers(t, op) : success();
  }
  fenceAsyncProxy(t);
  syncCta(t);
  return success();
}

// Tests whether a chunk is before the limit of a ring_read. The limit is a multiple of 16 bytes, so
// no chunk straddles it.
class Limit {
 public:
  Limit(ThreadLowering& t, tgpu::RingReadOp op, const BufferAccess& access) : t(t), access(access) {
    if (!op.getLimit() || op->hasAttr(kBeforeLimitAttr)) return;
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

// Replaces the elements before the row, in the chunk at column 0, by zeros (kBeforeLimitAttr). It
// masks 32-bit words, or single elements if the chunk is shorter.
class ZerosBeforeRow {
 public:
  ZerosBeforeRow(ThreadLowering& t, tgpu::RingReadOp op, const BufferAccess& access)
      : t(t), access(access) {
    if (!op->hasAttr(kBeforeLimitAttr)) return;
    first = t.scalar(op.getLimit());
    const int64_t part = op.getRing().getType().part(op.getPart()).getShape().back();
    if (part >= cast<RankedTensorType>(op.getType()).getShape().back()) return;
    Value before = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(part));
    first = arith::SubIOp::create(t.b, t.loc, first, before);
  }

  void write(int64_t reg, MutableArrayRef<Value> chunk) {
    if (!first) return;
    auto [base, offset] = t.coordinate(access.layout, reg, access.layout.map.rank() - 1);
    if (access.layout.disjoint && offset > 0) return;
    Value column = arith::AddIOp::create(t.b, t.loc, base, t.constant(offset));
    Value skipped = arith::SubIOp::create(t.b, t.loc, first, column);
    const Type element = chunk[0].getType();
    const int64_t bits = element.getIntOrFloatBitWidth(), all = bits * chunk.size();
    if (all % kWord != 0) {
      for (auto [i, value] : llvm::enumerate(chunk))
        value = arith::SelectOp::create(t.b, t.loc, isSkipped(skipped, i), t.zero(element), value);
      return;
    }
    const int64_t words = all / kWord;
    Value packed = t.bitcast(t.pack(chunk), typeOf(words, t.b.getI32Type()));
    SmallVector<Value> kept;
    for (int64_t word = 0; word < words; ++word)
      kept.push_back(arith::AndIOp::create(
          t.b, t.loc, words == 1 ? packed : t.extract(packed, word), mask(skipped, word, bits)));
    Value result = t.bitcast(t.pack(kept), typeOf(chunk.size(), element));
    for (auto [i, value] : llvm::enumerate(chunk))
      value = chunk.size() == 1 ? result : t.extract(result, i);
  }

 private:
  static constexpr int64_t kWord = 32;  // bits

  static Type typeOf(int64_t size, Type element) {
    return size == 1 ? element : Type(VectorType::get(size, element));
  }
  // Returns a predicate that is true if element `i` is one of the first `skipped` elements of the
  // chunk.
  Value isSkipped(Value skipped, int64_t i) {
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, skipped, t.constant(i));
  }
  // Returns the mask of a word's bits that belong to the row.
  Value mask(Value skipped, int64_t word, int64_t bits) {
    const int64_t begin = word * kWord / bits, count = std::max<int64_t>(kWord / bits, 1);
    Value kept = t.constant(-1);
    for (int64_t i = 0; i < count; ++i) {
      const auto left = static_cast<int32_t>(
          i + 1 == count ? 0 : ~uint32_t{0} << static_cast<uint32_t>((i + 1) * bits));
      kept = arith::SelectOp::create(t.b, t.loc, isSkipped(skipped, begin + i), t.constant(left),
                                     kept);
    }
    return kept;
  }

  ThreadLowering& t;
  const BufferAccess& access;
  Value first;
};

LogicalResult lowerRingRead(ThreadLowering& t, tgpu::RingReadOp op) {
  auto tile = cast<RankedTensorType>(op.getType());
  if (op.getRing().getType().getFill() == tgpu::RingFill::tensor)
    return op.emitOpError(
        "expected a ring that bulk copies or cp.async fill; only tgpu.wgmma reads TMA copies");
  if (operandInSlot(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<tgpu::WgmmaOp>))
    return success();
  const tgpu::MemDescType part = op.getRing().getType().part(op.getPart());
  const ArrayRef<int64_t> begin = op.getBegin().value_or(ArrayRef<int64_t>());
  Value slot = slotOf(t, op.getRing(), op.getSlot(), op.getPart());
  if (!op.getLimit())
    if (const auto matrices = loadMatrices(t, part, slot, tile, begin))
      return t.defineElements(op, *matrices), success();
  BufferAccess access(t, part, slot, tile, begin);
  Type element = t.elementType(tile);
  const Limit limit(t, op, access);
  ZerosBeforeRow zeros(t, op, access);
  SmallVector<Value> elements, pads;
  if (op.getLimit()) {
    TypedAttr pad = op.getPadAttr() ? op.getPadAttr() : t.b.getZeroAttr(element);
    pads.assign(access.chunk, arith::ConstantOp::create(t.b, t.loc, pad));
  }
  for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk) {
    SmallVector<Value> chunk =
        loadElements(t, access.pointer(reg), element, access.chunk, limit.inside(reg), pads, {});
    zeros.write(reg, chunk);
    llvm::append_range(elements, chunk);
  }
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
