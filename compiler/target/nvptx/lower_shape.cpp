// Creation and shape: constants, splats, ranges; everything that only renames registers.
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/thread_lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LogicalResult lowerConstant(ThreadLowering& t, arith::ConstantOp op) {
  TypedAttr value = op.getValue();
  if (isa<RankedTensorType>(op.getType())) {
    auto splat = dyn_cast<SplatElementsAttr>(value);
    if (!splat) return op.emitOpError("with different elements has no lowering for this target");
    auto element = cast<TypedAttr>(splat.getSplatValue<Attribute>());
    Type piece = t.pieceType(op.getType());
    value = isa<VectorType>(piece) ? TypedAttr(SplatElementsAttr::get(cast<ShapedType>(piece), Attribute(element)))
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

// Result register r is source register sources[r]; whole pieces are passed on where they correspond.
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
  table.add<tgpu::StretchOp, lowerRename<tgpu::StretchOp>>();
  table.add<tgpu::ConvertLayoutOp, lowerRename<tgpu::ConvertLayoutOp>>();
  table.add<tile::DimOp, lowerViewSize>();
  table.add<tile::StrideOp, lowerViewStride>();
}

}  // namespace ligerdsl::compiler::nvptx
