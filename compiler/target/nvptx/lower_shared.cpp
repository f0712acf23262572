// Shared memory: buffers, tiles in and out of them, barriers.
#include "compiler/passes/shared_buffer.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// A buffer is one piece: its address in shared memory.
LogicalResult lowerLocalAlloc(ThreadLowering& t, tgpu::LocalAllocOp op) {
  if (!op.getOffset()) return op.emitOpError("has no offset: run tgpu-allocate-shared first");
  t.define(op, {t.sharedPointer(*op.getOffset())});
  return success();
}

LogicalResult lowerLocalSlot(ThreadLowering& t, tgpu::LocalSlotOp op) {
  Value buffer = t.scalar(op.getBuffer());
  int64_t bytes = bufferBytes(op.getType());
  Value offset = arith::MulIOp::create(t.b, t.loc, t.scalar(op.getIndex()), t.constant(bytes));
  t.define(op, {LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI8Type(), buffer, ArrayRef<LLVM::GEPArg>{offset})});
  return success();
}

// Addresses of a tile's registers in a row-major buffer whose rows are padded.
class BufferAccess {
 public:
  BufferAccess(ThreadLowering& t, Value buffer, RankedTensorType tile)
      : t(t), type(cast<tgpu::MemDescType>(buffer.getType())), layout(t.layout(tile)), buffer(t.scalar(buffer)) {
    int rank = type.getShape().size();
    strides.assign(rank, memoryBytes(type.getElementType()));
    for (int dim = rank - 2; dim >= 0; --dim)
      strides[dim] = strides[dim + 1] * (type.getShape()[dim + 1] + (dim == rank - 2 ? type.getRowPad() : 0));
    chunk = std::max<int64_t>(1, std::min(layout.width, 16 / strides.back()));
    int64_t row = type.getShape().back() + type.getRowPad();
    while (chunk > 1 && rank > 1 && row % chunk != 0) chunk /= 2;
    Value offset;
    for (int dim = 0; dim < rank; ++dim) offset = sum(offset, bytes(layout.origin[dim], strides[dim]));
    thread = LLVM::GEPOp::create(t.b, t.loc, this->buffer.getType(), t.b.getI8Type(), this->buffer,
                                 ArrayRef<LLVM::GEPArg>{offset});
  }

  Value pointer(int64_t reg) {
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

  int64_t chunk = 1;
  ThreadLowering& t;
  tgpu::MemDescType type;
  const ThreadLayout& layout;

 private:
  Value bytes(Value coordinate, int64_t stride) {
    return stride == 1 ? coordinate : Value(arith::MulIOp::create(t.b, t.loc, coordinate, t.constant(stride)));
  }
  Value sum(Value a, Value c) { return a ? Value(arith::AddIOp::create(t.b, t.loc, a, c)) : c; }

  Value buffer, thread;
  SmallVector<int64_t> strides;  // bytes
};

LogicalResult lowerLocalStore(ThreadLowering& t, tgpu::LocalStoreOp op) {
  BufferAccess access(t, op.getBuffer(), cast<RankedTensorType>(op.getValue().getType()));
  SmallVector<Value> elements = t.elements(op.getValue());
  auto storeAll = [&] {
    for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk)
      storeElements(t, access.pointer(reg), ArrayRef(elements).slice(reg, access.chunk), {}, {});
  };
  Value owner = t.ownerPredicate(access.layout);
  if (!owner) return storeAll(), success();
  auto branch = scf::IfOp::create(t.b, t.loc, owner, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  storeAll();
  return success();
}

LogicalResult lowerLocalLoad(ThreadLowering& t, tgpu::LocalLoadOp op) {
  BufferAccess access(t, op.getBuffer(), cast<RankedTensorType>(op.getType()));
  Type element = t.elementType(op.getType());
  SmallVector<Value> elements;
  int64_t chunk = access.chunk;
  SmallVector<Value> pads;
  if (op.getLimit()) {
    // Whoever sets a limit made it a multiple of 16 bytes, so a chunk lies on one side of it.
    TypedAttr pad = op.getPadAttr() ? op.getPadAttr() : t.b.getZeroAttr(element);
    pads.assign(chunk, arith::ConstantOp::create(t.b, t.loc, pad));
  }
  for (int64_t reg = 0; reg < access.layout.registers(); reg += chunk) {
    Value inside;
    if (op.getLimit()) {
      auto [base, offset] = t.coordinate(access.layout, reg, access.layout.map.rank() - 1);
      Value left = arith::SubIOp::create(t.b, t.loc, t.scalar(op.getLimit()), base);
      inside = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, left, t.constant(offset));
    }
    llvm::append_range(elements, loadElements(t, access.pointer(reg), element, chunk, inside, pads, {}));
  }
  t.defineElements(op, elements);
  return success();
}

LogicalResult lowerBarrier(ThreadLowering& t, tgpu::BarrierOp) {
  NVVM::Barrier0Op::create(t.b, t.loc);
  return success();
}

}  // namespace

void addSharedLowerings(LoweringTable& table) {
  table.add<tgpu::LocalAllocOp, lowerLocalAlloc>();
  table.add<tgpu::LocalSlotOp, lowerLocalSlot>();
  table.add<tgpu::LocalStoreOp, lowerLocalStore>();
  table.add<tgpu::LocalLoadOp, lowerLocalLoad>();
  table.add<tgpu::BarrierOp, lowerBarrier>();
}

}  // namespace ligerdsl::compiler::nvptx
