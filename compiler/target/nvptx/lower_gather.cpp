// Lowers ops that move elements along an axis: to shuffles within a warp, or to reads of shared
// memory at computed indices.
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/conversion.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/memory_access.h"
#include "compiler/target/nvptx/shuffle.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LogicalResult lowerShuffleXor(ThreadLowering& t, tile::ShuffleXorOp op) {
  const Place partner = shufflePartner(layoutOf(op.getSource()), op.getAxis(), op.getMask());
  if (partner.warp != 0 || partner.cta != 0)
    return op.emitOpError("needs elements of other warps: run tgpu-lower-gathers first");
  SmallVector<Value> from = t.elements(op.getSource()), to;
  for (size_t reg = 0; reg < from.size(); ++reg) {
    Value element = from[reg ^ partner.reg];
    to.push_back(partner.lane ? shuffle(t, element, partner.lane, NVVM::ShflKind::bfly) : element);
  }
  t.defineElements(op, to);
  return success();
}

// Returns the i32 index along the axis from which result register `reg` is read. Indices from a
// tile are clamped.
Value place(ThreadLowering& t, tgpu::LocalGatherOp op, const ThreadLayout& layout,
            ArrayRef<Value> index, int64_t reg) {
  if (!index.empty()) {
    const int64_t last = op.getBuffer().getType().getShape()[op.getAxis()] - 1;
    const unsigned bits = index[reg].getType().getIntOrFloatBitWidth();
    Value inside = arith::MinUIOp::create(t.b, t.loc, index[reg], t.constant(last, bits));
    return bits == 32 ? inside
                      : arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), inside).getResult();
  }
  auto [base, offset] = t.coordinate(layout, reg, op.getAxis());
  Value own =
      offset ? arith::AddIOp::create(t.b, t.loc, base, t.constant(offset)).getResult() : base;
  return arith::XOrIOp::create(t.b, t.loc, own, t.constant(op.getMask()));
}

LogicalResult lowerLocalGather(ThreadLowering& t, tgpu::LocalGatherOp op) {
  const ThreadLayout& layout = t.layout(cast<RankedTensorType>(op.getType()));
  const SmallVector<int64_t> strides = byteStrides(op.getBuffer().getType());
  SmallVector<Value> index, elements;
  if (op.getIndex()) index = t.elements(op.getIndex());
  Value buffer = t.scalar(op.getBuffer());
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    Value bytes;
    int64_t constant = 0;
    for (auto [dim, stride] : llvm::enumerate(strides)) {
      Value moved = Value();
      if (dim == op.getAxis()) {
        moved = place(t, op, layout, index, reg);
      } else {
        auto [base, offset] = t.coordinate(layout, reg, dim);
        moved = base;
        constant += offset * stride;
      }
      moved = arith::MulIOp::create(t.b, t.loc, moved, t.constant(stride));
      bytes = bytes ? arith::AddIOp::create(t.b, t.loc, bytes, moved).getResult() : moved;
    }
    Value at = LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI8Type(), buffer,
                                   ArrayRef<LLVM::GEPArg>{bytes});
    if (constant)
      at = LLVM::GEPOp::create(t.b, t.loc, buffer.getType(), t.b.getI8Type(), at,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
    llvm::append_range(elements, loadElements(t, at, t.elementType(op.getType()), 1, {}, {}, {}));
  }
  t.defineElements(op, elements);
  return success();
}

}  // namespace

void addGatherLowerings(LoweringTable& table) {
  table.add<tile::ShuffleXorOp, lowerShuffleXor>();
  table.add<tgpu::LocalGatherOp, lowerLocalGather>();
}

}  // namespace ligerdsl::compiler::nvptx
