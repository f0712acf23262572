// Fills: bulk copies from global to shared memory by the asynchronous proxy, and the memory barriers that tell of their
// arrival. PTX ISA: mbarrier, cp.async.bulk; sm_90 and later.
//
// On a cluster every CTA has its slots, and brings its part of the tile into them.
//
// A slot's barrier expects one arrival per fill, that of the thread that starts the copy, and the bytes of the copy. A
// wait names the parity of the phase that it waits for.
#include "compiler/passes/shared_buffer.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

constexpr int64_t kBarrierBytes = 8;

Value slotAddress(ThreadLowering& t, Value base, Value slot, int64_t bytes) {
  Value offset = arith::MulIOp::create(t.b, t.loc, slot, t.constant(bytes));
  return arith::AddIOp::create(t.b, t.loc, sharedAddress(t, base), offset);
}

// In the first `count` threads.
template <class Emit>
void inThreadsBelow(ThreadLowering& t, Value count, Emit emit) {
  Value chosen = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, t.threadInCta(), count);
  auto branch = scf::IfOp::create(t.b, t.loc, chosen, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

LogicalResult lowerInitFills(ThreadLowering& t, tgpu::InitFillsOp op) {
  if (!t.hasBulkCopies()) return op.emitOpError("needs sm_90 or later, got ") << t.options.arch;
  int64_t slots = op.getBarriers().getType().getShape()[0];
  inThreadsBelow(t, t.constant(slots), [&] {
    Value barrier = slotAddress(t, t.scalar(op.getBarriers()), t.threadInCta(), kBarrierBytes);
    inlinePtx(t, {}, barrier, "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}");
    // The copies see the barrier through another proxy.
    inlinePtx(t, {}, {}, "fence.proxy.async.shared::cta;", "~{memory}");
  });
  return success();
}

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
    Value barrier = slotAddress(t, t.scalar(op.getBarriers()), slot, kBarrierBytes);
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
    inlinePtx(t, {}, {barrier, bytes}, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}");
    Value any = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, bytes, t.constant(0));
    inlinePtx(t, {}, {any, target, source, bytes, barrier},
              "@$0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$1], [$2], $3, [$4];",
              "b,r,l,r,r,~{memory}");
  });
  return done;
}

LogicalResult lowerAwaitFill(ThreadLowering& t, tgpu::AwaitFillOp op) {
  Value barrier = slotAddress(t, t.scalar(op.getBarriers()), t.scalar(op.getSlot()), kBarrierBytes);
  Value parity = t.scalar(op.getParity());
  auto loop = scf::WhileOp::create(t.b, t.loc, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(t.b);
  t.b.createBlock(&loop.getBefore());
  Value arrived = inlinePtx(t, t.b.getI1Type(), {barrier, parity},
                            "mbarrier.try_wait.parity.shared::cta.b64 $0, [$1], $2;", "=b,r,r,~{memory}");
  Value waiting = arith::XOrIOp::create(t.b, t.loc, arrived, t.constant(1, 1));
  scf::ConditionOp::create(t.b, t.loc, waiting, ValueRange());
  t.b.createBlock(&loop.getAfter());
  scf::YieldOp::create(t.b, t.loc, ValueRange());
  return success();
}

}  // namespace

void addFillLowerings(LoweringTable& table) {
  table.add<tgpu::InitFillsOp, lowerInitFills>();
  table.add<tgpu::FillOp, lowerFill>();
  table.add<tgpu::AwaitFillOp, lowerAwaitFill>();
}

}  // namespace ligerdsl::compiler::nvptx
