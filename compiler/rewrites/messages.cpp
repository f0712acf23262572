#include "compiler/rewrites/messages.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kMostBytes = 4096;  // of a turn: a message has a store per element and CTA, and two turns of slots
constexpr int64_t kTurns = 2;

Value alloc(OpBuilder& builder, Location loc, int64_t slots, ArrayRef<int64_t> shape, Type element) {
  SmallVector<int64_t> all{slots};
  llvm::append_range(all, shape);
  auto type = tgpu::MemDescType::get(builder.getContext(), all, element, 0);
  return tgpu::LocalAllocOp::create(builder, loc, type, IntegerAttr());
}

int64_t ctasOf(func::FuncOp kernel) {
  return kernel->getAttrOfType<IntegerAttr>(kNumCtasAttr).getInt();
}

}  // namespace

bool fitsMessages(RankedTensorType type, int64_t senders) {
  const int64_t bytes = sharedElementBytes(type.getElementType());
  return (bytes == 4 || bytes == 8) && senders * type.getNumElements() * bytes <= kMostBytes;
}

Message::Message(OpBuilder& builder, Location loc, ValueRange values, bool fromFirst) {
  auto kernel = builder.getBlock()->getParent()->getParentOfType<func::FuncOp>();
  if (!kernel) kernel = cast<func::FuncOp>(builder.getBlock()->getParentOp());
  OpBuilder begin = OpBuilder::atBlockBegin(&kernel.getBody().front());
  const int64_t senders = fromFirst ? ctasOf(kernel) : 1;
  SmallVector<Value> slots;
  for (Value value : values) {
    auto tile = cast<RankedTensorType>(value.getType());
    slots.push_back(alloc(begin, loc, kTurns * senders, tile.getShape(), tile.getElementType()));
  }
  Value barriers = alloc(begin, loc, kTurns, {}, begin.getI64Type());
  tgpu::InitMbarriersOp::create(begin, loc, barriers);
  send = tgpu::SendOp::create(builder, loc, builder.getI32Type(), builder.getI32Type(), values, slots, barriers,
                              fromFirst);
}

SmallVector<Value> Message::receive(OpBuilder& builder, TypeRange types) {
  Location loc = send.getLoc();
  tgpu::ReceiveOp::create(builder, loc, send.getBarriers(), send.getTurn(), send.getParity());
  SmallVector<Value> tiles;
  for (auto [buffer, type] : llvm::zip_equal(send.getSlots(), types)) {
    auto all = cast<tgpu::MemDescType>(buffer.getType());
    Value index = send.getTurn();
    if (const int64_t senders = all.getShape()[0] / kTurns; senders > 1) {
      Value count = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(senders));
      index = arith::MulIOp::create(builder, loc, index, count);
    }
    auto one = tgpu::MemDescType::get(builder.getContext(), all.getShape().drop_front(), all.getElementType(), 0);
    Value slot = tgpu::LocalSlotOp::create(builder, loc, one, buffer, index);
    tiles.push_back(tgpu::LocalLoadOp::create(builder, loc, type, slot));
  }
  return tiles;
}

}  // namespace ligerdsl::compiler
