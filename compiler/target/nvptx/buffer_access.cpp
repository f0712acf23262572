#include "compiler/target/nvptx/buffer_access.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/swizzle.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Returns the type of the part of a tile that is in a buffer: the whole tile or this CTA's part.
RankedTensorType partInBuffer(tgpu::MemDescType buffer, RankedTensorType tile, bool isSegment) {
  return isSegment || buffer.getShape() == tile.getShape() ? tile : *partOfCta(tile);
}

Swizzle swizzleOf(tgpu::MemDescType type) {
  return {type.getShape()[0], type.getSwizzle()};
}

}  // namespace

SmallVector<int64_t> byteStrides(tgpu::MemDescType type) {
  const int rank = type.getShape().size();
  SmallVector<int64_t> strides(rank, memoryBytes(type.getElementType()));
  for (int dim = rank - 2; dim >= 0; --dim)
    strides[dim] =
        strides[dim + 1] * (type.getShape()[dim + 1] + (dim == rank - 2 ? type.getRowPad() : 0));
  return strides;
}

BufferAccess::BufferAccess(ThreadLowering& t, tgpu::MemDescType type, Value buffer,
                           RankedTensorType tile, ArrayRef<int64_t> begin)
    : t(t),
      type(type),
      layout(t.layout(partInBuffer(type, tile, !begin.empty()))),
      buffer(buffer),
      begin(begin) {
  const int rank = type.getShape().size();
  strides = byteStrides(type);
  chunk = std::max<int64_t>(1, std::min(layout.width, 16 / strides.back()));
  int64_t row = type.getShape().back() + type.getRowPad();
  while (chunk > 1 && rank > 1 && row % chunk != 0) chunk /= 2;
  if (type.getSwizzle()) {
    offset = swizzled(layout.origin[0], layout.origin[1]);
    return;
  }
  for (int dim = 0; dim < rank; ++dim)
    offset = sum(offset, bytes(layout.origin[dim], strides[dim]));
  thread = at(this->buffer, offset);
}

// Returns the swizzled byte offset of an element whose coordinates are known only at run time. The
// panel width is a power of two, so the divisions are shifts.
Value BufferAccess::swizzled(Value row, Value column) {
  const Swizzle swizzle = swizzleOf(type);
  const auto shift = [&](Value value, int64_t by) -> Value {
    return arith::ShRUIOp::create(t.b, t.loc, value, t.constant(by));
  };
  const auto mask = [&](Value value, int64_t bits) -> Value {
    return arith::AndIOp::create(t.b, t.loc, value, t.constant(bits));
  };
  Value byte = bytes(column, strides.back()), plain = bytes(row, swizzle.bytes);
  if (type.getShape()[1] * strides.back() > swizzle.bytes) {
    Value panel = shift(byte, llvm::Log2_64(swizzle.bytes));
    plain = sum(plain, bytes(panel, swizzle.rows * swizzle.bytes));
    byte = mask(byte, swizzle.bytes - 1);
  }
  plain = sum(plain, byte);
  Value line = mask(shift(plain, 7), swizzle.bytes / Swizzle::kUnit - 1);
  return arith::XOrIOp::create(t.b, t.loc, plain, bytes(line, Swizzle::kUnit));
}

// The offset of a register and `begin` are constants that share no bits with the thread's
// coordinates. The compiler therefore knows the address bits that the swizzle flips for them.
Value BufferAccess::swizzledPointer(int64_t reg) {
  const Swizzle swizzle = swizzleOf(type);
  Value from = offset;
  int64_t offsets[2];
  for (int dim : {0, 1}) {
    auto [base, constant] = t.coordinate(layout, reg, dim);
    offsets[dim] = constant + beginOf(dim);
    if (base != layout.origin[dim]) from = {};
  }
  if (!from) from = swizzled(t.coordinate(layout, reg, 0).base, t.coordinate(layout, reg, 1).base);
  const int64_t plain = swizzle.plain(offsets[0], offsets[1] * strides.back());
  const int64_t flipped = (plain ^ swizzle.flips(plain)) & swizzle.unitBits();
  if (flipped) from = arith::XOrIOp::create(t.b, t.loc, from, t.constant(flipped));
  return at(at(buffer, from), plain & ~swizzle.unitBits());
}

Value BufferAccess::pointer(int64_t reg) {
  if (type.getSwizzle()) return swizzledPointer(reg);
  int64_t constant = 0;
  Value moved;
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    auto [base, offset] = t.coordinate(layout, reg, dim);
    constant += (offset + beginOf(dim)) * strides[dim];
    if (base != layout.origin[dim])
      moved = sum(moved,
                  bytes(arith::SubIOp::create(t.b, t.loc, base, layout.origin[dim]), strides[dim]));
  }
  return at(moved ? at(thread, moved) : thread, constant);
}

Value BufferAccess::at(Value address, Value offset) {
  return LLVM::GEPOp::create(t.b, t.loc, address.getType(), t.b.getI8Type(), address,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value BufferAccess::at(Value address, int64_t offset) {
  if (offset == 0) return address;
  return LLVM::GEPOp::create(t.b, t.loc, address.getType(), t.b.getI8Type(), address,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
}

Value BufferAccess::bytes(Value coordinate, int64_t stride) {
  return stride == 1 ? coordinate
                     : Value(arith::MulIOp::create(t.b, t.loc, coordinate, t.constant(stride)));
}

Value BufferAccess::sum(Value a, Value c) {
  return a ? Value(arith::AddIOp::create(t.b, t.loc, a, c)) : c;
}

Value bufferPart(ThreadLowering& t, Value buffer, Value index, int64_t bytes) {
  Value offset = arith::MulIOp::create(t.b, t.loc, index, t.constant(bytes));
  return LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI8Type(), buffer,
                             ArrayRef<LLVM::GEPArg>{offset});
}

void under(ThreadLowering& t, Value predicate, llvm::function_ref<void()> emit) {
  if (!predicate) return emit();
  auto branch = scf::IfOp::create(t.b, t.loc, predicate, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

}  // namespace ligerdsl::compiler::nvptx
