// tgpu-lower-gathers
//
// A tile.gather reads elements that any thread may hold, so its source is stored to shared memory
// and read by index. A tile.shuffle_xor within warps stays; the target lowers it to shuffles.
// Between warps, its source is stored too, and each thread reads the element at its own index with
// the mask's bits flipped. If the CTAs of a cluster share a source, every CTA gets all of it.
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPULOWERGATHERSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

bool isSharedByCtas(const LinearLayout& layout) {
  const LinearLayout::Basis none(layout.rank(), 0);
  return llvm::any_of(layout.bases(Axis::cta), [&](const auto& basis) { return basis != none; });
}

Value store(OpBuilder& builder, Location loc, Value source) {
  auto type = cast<RankedTensorType>(source.getType());
  auto memory = tgpu::MemDescType::get(builder.getContext(), type.getShape(), type.getElementType(),
                                       /*rowPad=*/0);
  Value buffer = tgpu::LocalAllocOp::create(builder, loc, memory, IntegerAttr());
  if (isSharedByCtas(layoutOf(type)))
    tgpu::RemoteStoreOp::create(builder, loc, source, buffer, /*owners_only=*/false);
  else
    tgpu::LocalStoreOp::create(builder, loc, source, buffer);
  return buffer;
}

void lower(Operation* op, Value index, uint32_t axis, uint32_t mask) {
  OpBuilder builder(op);
  Value buffer = store(builder, op->getLoc(), op->getOperand(0));
  Value read = tgpu::LocalGatherOp::create(builder, op->getLoc(), op->getResult(0).getType(),
                                           buffer, index, axis, mask);
  op->getResult(0).replaceAllUsesWith(read);
  op->erase();
}

class TgpuLowerGathersPass : public impl::TgpuLowerGathersPassBase<TgpuLowerGathersPass> {
 public:
  using TgpuLowerGathersPassBase::TgpuLowerGathersPassBase;

  void runOnOperation() override {
    getOperation().walk([](Operation* op) {
      if (auto gather = dyn_cast<tile::GatherOp>(op))
        lower(op, gather.getIndex(), gather.getAxis(), 0);
      else if (auto shuffle = dyn_cast<tile::ShuffleXorOp>(op); shuffle && !staysInWarp(shuffle))
        lower(op, Value(), shuffle.getAxis(), shuffle.getMask());
    });
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
