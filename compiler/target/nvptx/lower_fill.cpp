// Fills: bulk copies from global to shared memory by the asynchronous proxy, and the memory barriers that tell of their
// arrival. PTX ISA: cp.async.bulk; sm_90 and later.
//
// On a cluster every CTA has its slots, and brings its part of the tile into them.
//
// What arrives at a slot's barrier is the thread that starts the copy, and the bytes of the copy.
#include "compiler/passes/shared_buffer.h"
#include "compiler/target/nvptx/mbarrier.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Address of the tile's first element.
Value tileAddress(ThreadLowering& t, tgpu::FillOp op, ValueRange indices) {
  tile::ViewType view = op.getView().getType();
  const Pieces& slots = t.pieces(op.getView());
  Value address = slots[0];
  for (auto [axis, size] : llvm::enumerate(op.getTileShape())) {
    int64_t step = std::max<int64_t>(size, 1) * view.getElementBytes();
    Value stride = slots[1 + view.getRank() + axis];
    Value bytes = arith::MulIOp::create(t.b, t.loc, stride, t.constant(step, 64));
    bytes = arith::MulIOp::create(t.b, t.loc, indices[axis], bytes);
    address = arith::AddIOp::create(t.b, t.loc, address, bytes);
  }
  return address;
}

// How many of a part's elements are among the first `elements` of the tile, if `before` ones come before the part.
Value partInside(ThreadLowering& t, Value elements, Value before, int64_t part) {
  Value left = arith::SubIOp::create(t.b, t.loc, elements, before);
  left = arith::MaxSIOp::create(t.b, t.loc, left, t.constant(0));
  return arith::MinSIOp::create(t.b, t.loc, left, t.constant(part));
}

LogicalResult lowerFill(ThreadLowering& t, tgpu::FillOp op) {
  int64_t slots = op.getSlots().getType().getShape()[0];
  int64_t slotBytes = bufferBytes(op.getSlots().getType()) / slots;
  LogicalResult done = success();
  inThreadsBelow(t, t.scalar(op.getCount()), [&] {
    Value position = arith::AddIOp::create(t.b, t.loc, t.scalar(op.getFirst()), t.threadInCta());
    Block& body = op.getPosition().front();
    t.define(body.getArgument(0), {position});
    if (failed(done = t.lowerBlock(body))) return;
    t.loc = op.getLoc();
    SmallVector<Value> yielded =
        llvm::map_to_vector(body.getTerminator()->getOperands(), [&](Value value) { return t.scalar(value); });
    Value place = arith::AddIOp::create(t.b, t.loc, t.scalar(op.getBase()), position);
    Value slot = arith::RemUIOp::create(t.b, t.loc, place, t.constant(slots));
    Value barrier = mbarrierAddress(t, t.scalar(op.getBarriers()), slot);
    Value target = slotAddress(t, t.scalar(op.getSlots()), slot, slotBytes);
    int64_t elementBytes = op.getView().getType().getElementBytes();
    const int64_t part = op.getSlots().getType().getShape().back();
    Value elements = yielded.back(), source = tileAddress(t, op, ValueRange(yielded).drop_back());
    if (part < op.getTileShape().back()) {
      Value before = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(part));
      elements = partInside(t, elements, before, part);
      Value offset = arith::MulIOp::create(t.b, t.loc, before, t.constant(elementBytes));
      source = arith::AddIOp::create(t.b, t.loc, source, arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), offset));
    }
    Value bytes = arith::MulIOp::create(t.b, t.loc, elements, t.constant(elementBytes));
    arriveExpecting(t, barrier, bytes);
    Value any = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, bytes, t.constant(0));
    inlinePtx(t, {}, {any, target, source, bytes, barrier},
              "@$0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$1], [$2], $3, [$4];",
              "b,r,l,r,r,~{memory}");
  });
  return done;
}

LogicalResult lowerFenceCopies(ThreadLowering& t, tgpu::FenceCopiesOp) {
  inlinePtx(t, {}, {}, "fence.proxy.async.shared::cta;", "~{memory}");
  return success();
}

LogicalResult lowerAwaitFill(ThreadLowering& t, tgpu::AwaitFillOp op) {
  Value barrier = mbarrierAddress(t, t.scalar(op.getBarriers()), t.scalar(op.getSlot()));
  waitForPhase(t, barrier, t.scalar(op.getParity()), "");
  return success();
}

}  // namespace

void addFillLowerings(LoweringTable& table) {
  table.add<tgpu::FillOp, lowerFill>();
  table.add<tgpu::FenceCopiesOp, lowerFenceCopies>();
  table.add<tgpu::AwaitFillOp, lowerAwaitFill>();
}

}  // namespace ligerdsl::compiler::nvptx
