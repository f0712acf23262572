#include "compiler/target/nvptx/buffer_access.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// What a buffer holds of a tile: all of it, or the part of this CTA.
RankedTensorType heldBy(tgpu::MemDescType buffer, RankedTensorType tile) {
  return buffer.getShape() == tile.getShape() ? tile : *partOfCta(tile);
}

}  // namespace

SmallVector<int64_t> byteStrides(tgpu::MemDescType type) {
  const int rank = type.getShape().size();
  SmallVector<int64_t> strides(rank, memoryBytes(type.getElementType()));
  for (int dim = rank - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * (type.getShape()[dim + 1] + (dim == rank - 2 ? type.getRowPad() : 0));
  return strides;
}

BufferAccess::BufferAccess(ThreadLowering& t, tgpu::MemDescType type, Value buffer, RankedTensorType tile)
    : t(t), type(type), layout(t.layout(heldBy(type, tile))), buffer(buffer) {
  const int rank = type.getShape().size();
  strides = byteStrides(type);
  chunk = std::max<int64_t>(1, std::min(layout.width, 16 / strides.back()));
  int64_t row = type.getShape().back() + type.getRowPad();
  while (chunk > 1 && rank > 1 && row % chunk != 0) chunk /= 2;
  Value offset;
  for (int dim = 0; dim < rank; ++dim) offset = sum(offset, bytes(layout.origin[dim], strides[dim]));
  thread = LLVM::GEPOp::create(t.b, t.loc, this->buffer.getType(), t.b.getI8Type(), this->buffer,
                               ArrayRef<LLVM::GEPArg>{offset});
}

Value BufferAccess::pointer(int64_t reg) {
  int64_t constant = 0;
  Value moved;
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    auto [base, offset] = t.coordinate(layout, reg, dim);
    constant += offset * strides[dim];
    if (base != layout.origin[dim])
      moved = sum(moved, bytes(arith::SubIOp::create(t.b, t.loc, base, layout.origin[dim]), strides[dim]));
  }
  Value at = thread;
  if (moved) at = LLVM::GEPOp::create(t.b, t.loc, at.getType(), t.b.getI8Type(), at, ArrayRef<LLVM::GEPArg>{moved});
  if (constant)
    at = LLVM::GEPOp::create(t.b, t.loc, at.getType(), t.b.getI8Type(), at,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
  return at;
}

Value BufferAccess::bytes(Value coordinate, int64_t stride) {
  return stride == 1 ? coordinate : Value(arith::MulIOp::create(t.b, t.loc, coordinate, t.constant(stride)));
}

Value BufferAccess::sum(Value a, Value c) {
  return a ? Value(arith::AddIOp::create(t.b, t.loc, a, c)) : c;
}

Value bufferPart(ThreadLowering& t, Value buffer, Value index, int64_t bytes) {
  Value offset = arith::MulIOp::create(t.b, t.loc, index, t.constant(bytes));
  return LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI8Type(), buffer, ArrayRef<LLVM::GEPArg>{offset});
}

void under(ThreadLowering& t, Value predicate, llvm::function_ref<void()> emit) {
  if (!predicate) return emit();
  auto branch = scf::IfOp::create(t.b, t.loc, predicate, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

}  // namespace ligerdsl::compiler::nvptx
