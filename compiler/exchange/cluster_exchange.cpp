#include "compiler/exchange/cluster_exchange.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Limit of the bytes of one tile from all senders. Every element is stored to every CTA, and each
// tile has two buffers of this size.
constexpr int64_t kMostBytes = 4096;
constexpr int64_t kBuffers = 2;

Value alloc(OpBuilder& builder, Location loc, int64_t stages, ArrayRef<int64_t> shape,
            Type element) {
  SmallVector<int64_t> all{stages};
  llvm::append_range(all, shape);
  auto type = tgpu::MemDescType::get(builder.getContext(), all, element, 0);
  return tgpu::LocalAllocOp::create(builder, loc, type, IntegerAttr());
}

int64_t ctasOf(func::FuncOp kernel) {
  return kernel->getAttrOfType<IntegerAttr>(kNumCtasAttr).getInt();
}

}  // namespace

bool fitsExchange(RankedTensorType type, int64_t senders) {
  const int64_t bytes = sharedElementBytes(type.getElementType());
  return (bytes == 4 || bytes == 8) && senders * type.getNumElements() * bytes <= kMostBytes;
}

ClusterExchange::ClusterExchange(OpBuilder& builder, Location loc, ValueRange values,
                                 bool fromFirst) {
  auto kernel = builder.getBlock()->getParent()->getParentOfType<func::FuncOp>();
  if (!kernel) kernel = cast<func::FuncOp>(builder.getBlock()->getParentOp());
  OpBuilder begin = OpBuilder::atBlockBegin(&kernel.getBody().front());
  const int64_t senders = fromFirst ? ctasOf(kernel) : 1;
  SmallVector<Value> stages;
  for (Value value : values) {
    auto tile = cast<RankedTensorType>(value.getType());
    stages.push_back(alloc(begin, loc, kBuffers * senders, tile.getShape(), tile.getElementType()));
  }
  Value barriers = alloc(begin, loc, kBuffers, {}, begin.getI64Type());
  tgpu::InitMbarriersOp::create(begin, loc, barriers);
  send = tgpu::ClusterSendOp::create(builder, loc, builder.getI32Type(), builder.getI32Type(),
                                     values, stages, barriers, fromFirst);
}

SmallVector<Value> ClusterExchange::receive(OpBuilder& builder, TypeRange types) {
  Location loc = send.getLoc();
  tgpu::ClusterReceiveOp::create(builder, loc, send.getBarriers(), send.getStage(),
                                 send.getParity());
  SmallVector<Value> tiles;
  for (auto [buffer, type] : llvm::zip_equal(send.getStages(), types)) {
    auto all = cast<tgpu::MemDescType>(buffer.getType());
    Value index = send.getStage();
    if (const int64_t senders = all.getShape()[0] / kBuffers; senders > 1) {
      Value count = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(senders));
      index = arith::MulIOp::create(builder, loc, index, count);
    }
    auto one = tgpu::MemDescType::get(builder.getContext(), all.getShape().drop_front(),
                                      all.getElementType(), 0);
    Value stage = tgpu::LocalStageOp::create(builder, loc, one, buffer, index);
    tiles.push_back(tgpu::LocalLoadOp::create(builder, loc, type, stage));
  }
  return tiles;
}

}  // namespace ligerdsl::compiler
