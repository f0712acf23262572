// tgpu-split-dots
//
// A dot with an operand in a ring's slots becomes one dot per step along k, with its own reads. So
// few fragments are in registers at a time, and the assembler can schedule the reads of the next
// step's fragments during this step's multiplication. A step has the k of one tensor-core
// instruction. Without tensor cores, as for IEEE f32, it has kThreadStep elements along k, which a
// thread reads at once.
#include "compiler/analysis/layout_classes.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUSPLITDOTSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr int64_t kThreadStep = 4;

// An operand in registers or in a slot, possibly permuted.
struct DotOperand {
  Value tile;
  tile::PermuteOp permute;  // permute of the read value, or null
  tgpu::RingReadOp read;    // null if the operand is in registers

  explicit DotOperand(Value value) : tile(value), permute(value.getDefiningOp<tile::PermuteOp>()) {
    read = (permute ? permute.getSource() : value).getDefiningOp<tgpu::RingReadOp>();
    if (read && (read.getLimit() || read.getBegin())) read = {};
  }

  // Returns the operand's segment that begins at `k` along dimension `along`.
  Value segment(OpBuilder& builder, int along, int64_t k, const LinearLayout& layout) {
    auto whole = cast<RankedTensorType>(tile.getType());
    const auto result =
        withLayout(RankedTensorType::get(layout.shape(), whole.getElementType()), layout);
    SmallVector<int64_t> begin(2, 0);
    if (!read) {
      begin[along] = k;
      return tgpu::SegmentOp::create(builder, tile.getLoc(), result, tile, begin);
    }
    begin[permute ? permute.getPermutation()[along] : along] = k;
    RankedTensorType type = result;
    if (permute) {
      SmallVector<int64_t> shape(2);
      for (auto [dim, from] : llvm::enumerate(permute.getPermutation()))
        shape[from] = layout.shape()[dim];
      type = withLayout(RankedTensorType::get(shape, whole.getElementType()),
                        *sourceLayout(permute, layout));
    }
    Value tile = tgpu::RingReadOp::create(builder, read.getLoc(), type, read.getRing(),
                                          read.getSlot(), read.getPart(), Value(), TypedAttr(),
                                          builder.getDenseI64ArrayAttr(begin));
    if (permute)
      tile = tile::PermuteOp::create(builder, permute.getLoc(), result, tile,
                                     permute.getPermutationAttr());
    return tile;
  }
};

void split(tile::DotOp dot) {
  DotOperand a(dot.getA()), b(dot.getB());
  if (!a.read && !b.read) return;
  const LinearLayout left = layoutOf(dot.getA());
  DotShape shape = shapeOf(layoutOf(dot.getResult()), left.shape()[1], dot.getOperandBytes());
  const std::optional<DotLayouts> fragments = mmaLayouts(shape);
  const bool mma = !dot.isIeeeF32() && fragments && left == fragments->a;
  const int64_t depth = shape.k;
  shape.k = mma ? mmaK(shape.bytes) : kThreadStep;
  if (depth <= shape.k || depth % shape.k != 0) return;
  const DotLayouts layouts = mma ? *mmaLayouts(shape) : threadLayouts(shape);
  OpBuilder builder(dot);
  Value acc = dot.getAcc();
  for (int64_t k = 0; k < depth; k += shape.k) {
    Value rows = a.segment(builder, 1, k, layouts.a), columns = b.segment(builder, 0, k, layouts.b);
    acc = tile::DotOp::create(builder, dot.getLoc(), dot.getType(), rows, columns, acc,
                              dot.getFormatAAttr(), dot.getFormatBAttr(), dot.getTf32Attr());
  }
  dot.replaceAllUsesWith(acc);
  dot.erase();
  for (DotOperand operand : {a, b}) {
    if (!operand.read) continue;
    if (operand.permute && operand.permute.use_empty()) operand.permute->erase();
    if (operand.read.use_empty()) operand.read->erase();
  }
}

class TgpuSplitDotsPass : public impl::TgpuSplitDotsPassBase<TgpuSplitDotsPass> {
 public:
  using TgpuSplitDotsPassBase::TgpuSplitDotsPassBase;

  void runOnOperation() override {
    SmallVector<tile::DotOp> dots;
    getOperation().walk([&](tile::DotOp dot) { dots.push_back(dot); });
    for (tile::DotOp dot : dots) split(dot);
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
