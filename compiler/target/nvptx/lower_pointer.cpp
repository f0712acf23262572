// Lowers pointer arithmetic, gathers and scatters: one access per element.
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

Value widen(ThreadLowering& t, Value offset) {
  if (getElementTypeOrSelf(offset.getType()).isInteger(64)) return offset;
  Type wide = t.b.getI64Type();
  if (auto vector = dyn_cast<VectorType>(offset.getType())) wide = vector.clone(wide);
  return arith::ExtSIOp::create(t.b, t.loc, wide, offset);
}

LogicalResult lowerAddPtr(ThreadLowering& t, tile::AddPtrOp op) {
  auto pointer = cast<tile::PtrType>(getElementTypeOrSelf(op.getType()));
  int64_t bytes = memoryBytes(pointer.getElementType());
  Pieces base = t.pieces(op.getPtr()), offsets = t.pieces(op.getOffset()), sums;
  Type piece = t.pieceType(op.getType());
  TypedAttr scale = t.b.getI64IntegerAttr(bytes);
  if (auto vector = dyn_cast<VectorType>(piece))
    scale = SplatElementsAttr::get(vector, Attribute(scale));
  for (int64_t i = 0, n = t.pieceCount(op.getType()); i < n; ++i) {
    Value offset = widen(t, offsets[offsets.size() == 1 ? 0 : i]);
    if (offset.getType() != piece)
      return op.emitOpError("expected offsets of the result's shape and layout, got ")
             << op.getOffset().getType() << " for " << op.getType();
    if (bytes != 1)
      offset =
          arith::MulIOp::create(t.b, t.loc, offset, arith::ConstantOp::create(t.b, t.loc, scale));
    sums.push_back(arith::AddIOp::create(t.b, t.loc, base[base.size() == 1 ? 0 : i], offset));
  }
  t.define(op, std::move(sums));
  return success();
}

LogicalResult lowerLoad(ThreadLowering& t, tile::LoadOp op) {
  Type element = t.elementType(op.getType());
  Value zero = t.zero(element);
  SmallVector<Value> addresses = t.elements(op.getPtr()), masks, others, loaded;
  if (op.getMask()) masks = t.elements(op.getMask());
  if (op.getOther()) others = t.elements(op.getOther());
  for (auto [i, address] : llvm::enumerate(addresses)) {
    Value mask = masks.empty() ? Value() : masks[masks.size() == 1 ? 0 : i];
    Value other = others.empty() ? zero : others[others.size() == 1 ? 0 : i];
    llvm::append_range(loaded,
                       loadElements(t, globalPointer(t, address), element, 1, mask, {other}, {}));
  }
  t.defineElements(op, loaded);
  return success();
}

LogicalResult lowerStore(ThreadLowering& t, tile::StoreOp op) {
  SmallVector<Value> addresses = t.elements(op.getPtr()), values = t.elements(op.getValue()), masks;
  if (op.getMask()) masks = t.elements(op.getMask());
  auto tensor = dyn_cast<RankedTensorType>(op.getPtr().getType());
  Value owner =
      tensor ? t.ownerPredicate(t.layout(tensor)) : t.threadMaskIsZero(t.numThreads() - 1);
  for (auto [i, address] : llvm::enumerate(addresses)) {
    Value mask = masks.empty() ? Value() : masks[masks.size() == 1 ? 0 : i];
    storeElements(t, globalPointer(t, address), {values[values.size() == 1 ? 0 : i]},
                  t.both(owner, mask), {});
  }
  return success();
}

}  // namespace

void addPointerLowerings(LoweringTable& table) {
  table.add<tile::AddPtrOp, lowerAddPtr>();
  table.add<tile::LoadOp, lowerLoad>();
  table.add<tile::StoreOp, lowerStore>();
}

}  // namespace ligerdsl::compiler::nvptx
