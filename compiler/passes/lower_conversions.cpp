// tgpu-lower-conversions
//
// A tgpu.convert_layout whose values stay in their threads is a renaming of registers and remains. Every other one goes
// through shared memory: allocate, store, load. Neighbouring conversions are lowered together, all stores before all
// loads, so that they share one barrier (tgpu-insert-barriers puts it there).
//
// Buffers are row-major. Where two layouts walk the tile along different dimensions (a transposition), rows are padded
// by one vector so that the lanes of a column access spread over the banks.
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/conversion.h"
#include "compiler/passes/layout_attr.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/shared_buffer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Elements after each row of the last dimension.
int64_t rowPad(RankedTensorType type, const LinearLayout& from, const LinearLayout& to) {
  if (type.getRank() < 2) return 0;
  const int last = static_cast<int>(type.getRank()) - 1;
  // Lanes that differ in lane bit 0 sit in one row on one side and in different rows on the other.
  auto firstLaneInRow = [&](const LinearLayout& layout) {
    const auto& lane = layout.bases(Axis::lane);
    return lane.empty() || lane[0] == LinearLayout::Basis(layout.rank(), 0) || lane[0][last] != 0;
  };
  if (firstLaneInRow(from) && firstLaneInRow(to)) return 0;
  int64_t bytes = sharedElementBytes(type.getElementType());
  return std::max<int64_t>(std::max<int64_t>(from.contiguous(), to.contiguous()), 4 / bytes);
}

void lowerTogether(ArrayRef<tgpu::ConvertLayoutOp> conversions) {
  OpBuilder builder(conversions.back());
  SmallVector<Value> buffers;
  for (tgpu::ConvertLayoutOp op : conversions) {
    auto type = cast<RankedTensorType>(op.getSource().getType());
    auto memory = tgpu::MemDescType::get(op.getContext(), type.getShape(), type.getElementType(),
                                         rowPad(type, layoutOf(op.getSource()), layoutOf(op.getResult())));
    buffers.push_back(tgpu::LocalAllocOp::create(builder, op.getLoc(), memory, IntegerAttr()));
    tgpu::LocalStoreOp::create(builder, op.getLoc(), op.getSource(), buffers.back());
  }
  for (auto [number, buffer] : llvm::enumerate(buffers)) {
    tgpu::ConvertLayoutOp op = conversions[number];
    Value loaded = tgpu::LocalLoadOp::create(builder, op.getLoc(), op.getResult().getType(), buffer);
    op.getResult().replaceAllUsesWith(loaded);
    op.erase();
  }
}

bool leavesThread(tgpu::ConvertLayoutOp op) {
  return travel(layoutOf(op.getSource()), layoutOf(op.getResult())) > Travel::registers;
}

class TgpuLowerConversionsPass : public PassWrapper<TgpuLowerConversionsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuLowerConversionsPass)
  StringRef getArgument() const override { return "tgpu-lower-conversions"; }
  StringRef getDescription() const override { return "Move tiles between layouts through shared memory"; }

  void runOnOperation() override {
    SmallVector<Block*> blocks;
    getOperation().walk([&](Block* block) { blocks.push_back(block); });
    for (Block* block : blocks) lowerBlock(*block);
  }

 private:
  void lowerBlock(Block& block) {
    SmallVector<tgpu::ConvertLayoutOp> run;
    auto flush = [&] {
      if (!run.empty()) lowerTogether(run);
      run.clear();
    };
    for (Operation& op : llvm::make_early_inc_range(block)) {
      auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(op);
      if (!conversion) {
        flush();
      } else if (conversion.getSource().getType() == conversion.getResult().getType()) {
        conversion.getResult().replaceAllUsesWith(conversion.getSource());
        conversion.erase();
      } else if (leavesThread(conversion)) {
        bool chained = llvm::any_of(run, [&](auto other) { return conversion.getSource() == other.getResult(); });
        if (chained) flush();
        run.push_back(conversion);
      }
    }
    flush();
  }
};

}  // namespace

std::unique_ptr<Pass> createTgpuLowerConversionsPass() {
  return std::make_unique<TgpuLowerConversionsPass>();
}

}  // namespace ligerdsl::compiler
