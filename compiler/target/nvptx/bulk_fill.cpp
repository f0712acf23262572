// Bulk copies from global to shared memory, through the async proxy. PTX ISA: cp.async.bulk; sm_90
// and later.
//
// In a cluster, each CTA has its own slots and copies its part of the tile into them. A slot's
// mbarrier expects one arrival, by the thread that starts the copy, and the copy's bytes.
#include "compiler/target/nvptx/bulk_fill.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/target/nvptx/mbarrier.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Returns the address of the tile's first column. With an alignment offset of n, the first tile
// begins n elements before the row.
Value tileAddress(ThreadLowering& t, tgpu::RingFillOp op, ValueRange indices,
                  Value alignmentOffset) {
  Value operand = op.getViews().front();
  auto view = cast<tile::ViewType>(operand.getType());
  const Pieces& slots = t.pieces(operand);
  Value address = slots[0];
  for (auto [axis, size] : llvm::enumerate(op.getTileShape())) {
    int64_t step = std::max<int64_t>(size, 1) * view.getElementBytes();
    Value stride = slots[1 + view.getRank() + axis];
    Value bytes = arith::MulIOp::create(t.b, t.loc, stride, t.constant(step, 64));
    bytes = arith::MulIOp::create(t.b, t.loc, indices[axis], bytes);
    address = arith::AddIOp::create(t.b, t.loc, address, bytes);
  }
  if (!alignmentOffset) return address;
  Value before =
      arith::MulIOp::create(t.b, t.loc, alignmentOffset, t.constant(view.getElementBytes()));
  return arith::SubIOp::create(t.b, t.loc, address,
                               arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), before));
}

// Returns how many of the tile's first `elements` elements are in a part of the tile. The part has
// `part` elements and begins at element `before`.
Value partInside(ThreadLowering& t, Value elements, Value before, int64_t part) {
  Value left = arith::SubIOp::create(t.b, t.loc, elements, before);
  left = arith::MaxSIOp::create(t.b, t.loc, left, t.constant(0));
  return arith::MinSIOp::create(t.b, t.loc, left, t.constant(part));
}

Value select(ThreadLowering& t, Value condition, int64_t then) {
  return arith::SelectOp::create(t.b, t.loc, condition, t.constant(then), t.constant(0));
}

// Copies the elements of a tile that are inside the view, [first, end), to a slot, in one thread.
class SlotCopy {
 public:
  SlotCopy(ThreadLowering& t, tgpu::RingFillOp op, Value source, Value target, Value barrier)
      : t(t),
        op(op),
        view(op.getViews().front()),
        element(cast<tile::ViewType>(view.getType()).getElementType()),
        bytes(cast<tile::ViewType>(view.getType()).getElementBytes()),
        group(tile::kVectorBytes / bytes),
        source(source),
        target(target),
        barrier(barrier) {}

  void whole(Value end) {
    Value size = times(end, bytes);
    arriveExpecting(t, barrier, size);
    start(size, t.constant(0));
  }

  // A bulk copy moves whole groups of 16 bytes. If the row begins or ends inside a group, the
  // thread moves that group's elements one by one, and reads nothing outside the row. It arrives at
  // the mbarrier after it has stored them in the slot.
  void ragged(Value first, Value end) {
    Value skipped, begins;
    if (first) {
      begins = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, first, t.constant(0));
      skipped = select(t, begins, group);
    }
    Value tail = arith::AndIOp::create(t.b, t.loc, end, t.constant(-group)), between = tail;
    if (first) {
      between = arith::SubIOp::create(t.b, t.loc, tail, skipped);
      between = arith::MaxSIOp::create(t.b, t.loc, between, t.constant(0));
    }
    Value size = times(between, bytes);
    inlinePtx(t, {}, {barrier, size}, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;",
              "r,r,~{memory}");
    start(size, first ? times(skipped, bytes) : t.constant(0));
    // The loads of both groups start before the code waits for the first of them.
    SmallVector<Value> front, back;
    if (first) front = loadGroup(t.constant(0), first, end, begins);
    Value ends = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, tail, end);
    if (first) {  // the row may begin and end in the same group
      Value different = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::uge, tail, skipped);
      ends = t.both(ends, different);
    }
    back = loadGroup(tail, {}, end, ends);
    if (first) storeGroup(t.constant(0), front, begins);
    storeGroup(tail, back, ends);
    inlinePtx(t, {}, {barrier}, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}");
  }

 private:
  Value times(Value count, int64_t factor) {
    return arith::MulIOp::create(t.b, t.loc, count, t.constant(factor));
  }

  void start(Value size, Value skipped) {
    Value any = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, size, t.constant(0));
    Value to = arith::AddIOp::create(t.b, t.loc, target, skipped);
    const std::string opcode =
        "@$0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    if (Value policy = cachePolicy(t, view, op.getEvict()))
      inlinePtx(t, {}, {any, to, sourceAt(skipped), size, barrier, policy},
                opcode + ".L2::cache_hint [$1], [$2], $3, [$4], $5;", "b,r,l,r,r,l,~{memory}");
    else
      inlinePtx(t, {}, {any, to, sourceAt(skipped), size, barrier},
                opcode + " [$1], [$2], $3, [$4];", "b,r,l,r,r,~{memory}");
  }
  Value sourceAt(Value offset) {
    return arith::AddIOp::create(t.b, t.loc, source,
                                 arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), offset));
  }

  // Loads the group that begins at element `at`, where `wanted` holds. Elements before `first` and
  // from `end` on get the pad value.
  SmallVector<Value> loadGroup(Value at, Value first, Value end, Value wanted) {
    TypedAttr pad = op.getPadAttr() ? op.getPadAttr() : t.b.getZeroAttr(element);
    SmallVector<Value> elements, pads{arith::ConstantOp::create(t.b, t.loc, pad)};
    Value address = sourceAt(times(at, bytes));
    for (int64_t i = 0; i < group; ++i) {
      Value here = arith::AddIOp::create(t.b, t.loc, at, t.constant(i));
      Value inside = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::slt, here, end);
      if (first)
        inside = t.both(inside,
                        arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, here, first));
      Value from = arith::AddIOp::create(t.b, t.loc, address, t.constant(i * bytes, 64));
      llvm::append_range(elements, loadElements(t, globalPointer(t, from), element, 1,
                                                t.both(wanted, inside), pads, {}));
    }
    return elements;
  }
  void storeGroup(Value at, ArrayRef<Value> elements, Value wanted) {
    auto shared = LLVM::LLVMPointerType::get(t.b.getContext(), kSharedSpace);
    Value to = arith::AddIOp::create(t.b, t.loc, target, times(at, bytes));
    storeElements(t, LLVM::IntToPtrOp::create(t.b, t.loc, shared, to), elements, wanted, {});
  }

  ThreadLowering& t;
  tgpu::RingFillOp op;
  Value view;
  Type element;
  int64_t bytes, group;
  Value source, target, barrier;
};

}  // namespace

LogicalResult fillByBulkCopies(ThreadLowering& t, tgpu::RingFillOp op) {
  const tgpu::RingType ring = op.getRing().getType();
  const Pieces places = t.pieces(op.getRing());  // addresses of the part, and of the mbarriers
  LogicalResult done = success();
  inThreadsBelow(t, t.scalar(op.getCount()), [&] {
    Value position = arith::AddIOp::create(t.b, t.loc, t.scalar(op.getFirst()), t.threadInCta());
    Block& body = op.getPosition().front();
    t.define(body.getArgument(0), {position});
    if (failed(done = t.lowerBlock(body))) return;
    t.loc = op.getLoc();
    SmallVector<Value> yielded = llvm::map_to_vector(body.getTerminator()->getOperands(),
                                                     [&](Value value) { return t.scalar(value); });
    const size_t rank = op.getTileShape().size();
    ValueRange indices = ValueRange(yielded).take_front(rank);
    Value elements = yielded.back(),
          alignmentOffset = yielded.size() > rank + 1 ? yielded[rank] : Value();
    Value place = arith::AddIOp::create(t.b, t.loc, t.scalar(op.getSlot()), position);
    Value slot = arith::RemUIOp::create(t.b, t.loc, place, t.constant(ring.getSlots()));
    Value barrier = mbarrierAddress(t, places[1], slot);
    Value target = stageAddress(t, places[0], slot, bufferBytes(ring.part(0)));
    auto view = cast<tile::ViewType>(op.getViews().front().getType());
    int64_t elementBytes = view.getElementBytes();
    const int64_t part = ring.part(0).getShape().back();
    Value source = tileAddress(t, op, indices, alignmentOffset);
    Value first = alignmentOffset;
    if (alignmentOffset) {
      Value begins = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, indices.back(),
                                           t.constant(0, 64));
      first = arith::SelectOp::create(t.b, t.loc, begins, alignmentOffset, t.constant(0));
    }
    if (part < op.getTileShape().back()) {
      Value before = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(part));
      elements = partInside(t, elements, before, part);
      if (first) first = partInside(t, first, before, part);
      Value offset = arith::MulIOp::create(t.b, t.loc, before, t.constant(elementBytes));
      source = arith::AddIOp::create(t.b, t.loc, source,
                                     arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), offset));
    }
    SlotCopy copy(t, op, source, target, barrier);
    if (alignmentOffset || view.getShape().back() * elementBytes % tile::kVectorBytes != 0)
      copy.ragged(first, elements);
    else
      copy.whole(elements);
  });
  return done;
}

}  // namespace ligerdsl::compiler::nvptx
