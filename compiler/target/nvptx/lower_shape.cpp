// Lowers ops that create tiles (constants, splats, ranges), sizes and strides of views, and shape
// ops, which rename registers or shuffle them between lanes.
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/conversion.h"
#include "compiler/target/nvptx/shuffle.h"
#include "compiler/target/nvptx/thread_lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LogicalResult lowerConstant(ThreadLowering& t, arith::ConstantOp op) {
  TypedAttr value = op.getValue();
  if (isa<RankedTensorType>(op.getType())) {
    auto splat = dyn_cast<SplatElementsAttr>(value);
    if (!splat) return op.emitOpError("has different elements; expected one value for all");
    auto element = cast<TypedAttr>(splat.getSplatValue<Attribute>());
    Type piece = t.pieceType(op.getType());
    value = isa<VectorType>(piece)
                ? TypedAttr(SplatElementsAttr::get(cast<ShapedType>(piece), Attribute(element)))
                : element;
  }
  Value constant = arith::ConstantOp::create(t.b, t.loc, value);
  t.define(op, Pieces(t.pieceCount(op.getType()), constant));
  return success();
}

LogicalResult lowerSplat(ThreadLowering& t, tile::SplatOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  const ThreadLayout& layout = t.layout(type);
  SmallVector<Value> copies(layout.width, t.scalar(op.getSource()));
  t.define(op, Pieces(layout.pieces(), t.pack(copies)));
  return success();
}

LogicalResult lowerMakeRange(ThreadLowering& t, tile::MakeRangeOp op) {
  const ThreadLayout& layout = t.layout(cast<RankedTensorType>(op.getType()));
  SmallVector<Value> elements;
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    auto [base, offset] = t.coordinate(layout, reg, 0);
    elements.push_back(offset ? arith::AddIOp::create(t.b, t.loc, base, t.constant(offset)) : base);
  }
  t.defineElements(op, elements);
  return success();
}

// Defines result register r as source register sources[r]. A vector of the source is reused if a
// vector of the result has the same elements.
LogicalResult renameRegisters(ThreadLowering& t, Operation* op) {
  Value source = op->getOperand(0), result = op->getResult(0);
  std::optional<SmallVector<int32_t>> sources = shapeOpSources(op);
  if (!sources)
    return op->emitOpError("needs elements that this thread does not hold: ")
           << source.getType() << " -> " << result.getType();
  SmallVector<Value> from = t.elements(source);
  SmallVector<Value> to = llvm::map_to_vector(*sources, [&](int32_t reg) { return from[reg]; });
  t.defineElements(result, to);
  return success();
}

template <typename Op>
LogicalResult lowerRename(ThreadLowering& t, Op op) {
  return renameRegisters(t, op);
}

// Renames registers, or shuffles them if a register bit and a lane bit change places. A lane then
// keeps one of two registers that differ only in the register bit, and exchanges the other with its
// partner.
LogicalResult lowerConversion(ThreadLowering& t, tgpu::ConvertLayoutOp op) {
  const std::optional<BitSwap> bits = bitSwap(layoutOf(op.getSource()), layoutOf(op.getResult()));
  if (!bits) return renameRegisters(t, op);
  SmallVector<Value> elements = t.elements(op.getSource());
  const Value isFirst = t.threadMaskIsZero(int64_t{1} << bits->lane);
  const auto select = [&](Value first, Value second) -> Value {
    return arith::SelectOp::create(t.b, t.loc, isFirst, first, second);
  };
  const size_t half = size_t{1} << bits->reg;
  for (size_t reg = 0; reg < elements.size(); ++reg) {
    if (reg & half) continue;
    Value &low = elements[reg], &high = elements[reg | half];
    Value other = shuffle(t, select(high, low), int64_t{1} << bits->lane, NVVM::ShflKind::bfly);
    low = select(low, other);
    high = select(other, high);
  }
  t.defineElements(op, elements);
  return success();
}

LogicalResult lowerViewSize(ThreadLowering& t, tile::DimOp op) {
  t.define(op, {t.pieces(op.getView())[1 + op.getAxis()]});
  return success();
}

LogicalResult lowerViewStride(ThreadLowering& t, tile::StrideOp op) {
  t.define(op, {t.pieces(op.getView())[1 + op.getView().getType().getRank() + op.getAxis()]});
  return success();
}

}  // namespace

void addShapeLowerings(LoweringTable& table) {
  table.add<arith::ConstantOp, lowerConstant>();
  table.add<tile::SplatOp, lowerSplat>();
  table.add<tile::MakeRangeOp, lowerMakeRange>();
  table.add<tile::ExpandDimsOp, lowerRename<tile::ExpandDimsOp>>();
  table.add<tile::BroadcastOp, lowerRename<tile::BroadcastOp>>();
  table.add<tile::ReshapeOp, lowerRename<tile::ReshapeOp>>();
  table.add<tile::PermuteOp, lowerRename<tile::PermuteOp>>();
  table.add<tgpu::SegmentOp, lowerRename<tgpu::SegmentOp>>();
  table.add<tgpu::ConvertLayoutOp, lowerConversion>();
  table.add<tile::DimOp, lowerViewSize>();
  table.add<tile::StrideOp, lowerViewStride>();
}

}  // namespace ligerdsl::compiler::nvptx
