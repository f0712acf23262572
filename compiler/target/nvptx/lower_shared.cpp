// Shared memory: buffers, tiles in and out of them, of this CTA and of the cluster, barriers, and tiles that are copied
// there ahead of their use.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/tile_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// A buffer is one piece: its address in shared memory.
LogicalResult lowerLocalAlloc(ThreadLowering& t, tgpu::LocalAllocOp op) {
  if (!op.getOffset()) return op.emitOpError("has no offset: run tgpu-allocate-shared first");
  t.define(op, {t.sharedPointer(*op.getOffset())});
  return success();
}

LogicalResult lowerLocalStage(ThreadLowering& t, tgpu::LocalStageOp op) {
  t.define(op, {bufferPart(t, t.scalar(op.getBuffer()), t.scalar(op.getIndex()), bufferBytes(op.getType()))});
  return success();
}

void storeAll(BufferAccess& access, ArrayRef<Value> elements, Value predicate = {}) {
  for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk)
    storeElements(access.t, access.pointer(reg), elements.slice(reg, access.chunk), predicate, {});
}

LogicalResult lowerLocalStore(ThreadLowering& t, tgpu::LocalStoreOp op) {
  auto tile = cast<RankedTensorType>(op.getValue().getType());
  BufferAccess access(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), tile);
  SmallVector<Value> elements = t.elements(op.getValue());
  storeAll(access, elements, t.ownerPredicate(t.layout(tile), ThreadLowering::Within::cta));
  return success();
}

// This buffer in another CTA of the cluster.
Value inCta(ThreadLowering& t, Value buffer, Value rank) {
  constexpr unsigned kClusterSpace = 7;
  auto type = LLVM::LLVMPointerType::get(t.b.getContext(), kClusterSpace);
  return NVVM::MapaOp::create(t.b, t.loc, type, buffer, rank);
}

// Lanes that hold the same values serve different CTAs, if there are as many; otherwise the owner serves all.
LogicalResult lowerRemoteStore(ThreadLowering& t, tgpu::RemoteStoreOp op) {
  auto tile = cast<RankedTensorType>(op.getValue().getType());
  SmallVector<Value> elements = t.elements(op.getValue());
  const LinearLayout& map = t.layout(tile).map;
  BitMasks redundant = map.redundant();
  const int64_t ctas = t.options.num_ctas, bits = llvm::Log2_64(ctas);
  auto storeTo = [&](Value rank) {
    BufferAccess access(t, op.getBuffer().getType(), inCta(t, t.scalar(op.getBuffer()), rank), tile);
    storeAll(access, elements);
  };
  const int64_t first = llvm::countr_zero(redundant.lane);
  const uint64_t serving = static_cast<uint64_t>(ctas - 1) << first;
  if (!op.getOwnersOnly() && redundant.lane != 0 && (redundant.lane & serving) == serving) {
    const int64_t others = (redundant.lane & ~serving) | redundant.warp << 5 | redundant.cta * 32 * t.numWarps();
    Value rank = t.threadField(first, bits);
    under(t, others ? t.threadMaskIsZero(others) : Value(), [&] { storeTo(rank); });
    return success();
  }
  under(t, t.ownerPredicate(t.layout(tile)), [&] {
    for (int64_t rank = 0; rank < ctas; ++rank) storeTo(t.constant(rank));
  });
  return success();
}

LogicalResult lowerLocalLoad(ThreadLowering& t, tgpu::LocalLoadOp op) {
  auto tile = cast<RankedTensorType>(op.getType());
  BufferAccess access(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), tile);
  Type element = t.elementType(op.getType());
  SmallVector<Value> elements;
  int64_t chunk = access.chunk;
  SmallVector<Value> pads;
  Value limit;
  if (op.getLimit()) {
    limit = t.scalar(op.getLimit());
    if (const int64_t part = op.getBuffer().getType().getShape().back(); part < tile.getShape().back()) {
      Value before = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(part));
      limit = arith::SubIOp::create(t.b, t.loc, limit, before);
    }
    // Whoever sets a limit made it a multiple of 16 bytes, so a chunk lies on one side of it.
    TypedAttr pad = op.getPadAttr() ? op.getPadAttr() : t.b.getZeroAttr(element);
    pads.assign(chunk, arith::ConstantOp::create(t.b, t.loc, pad));
  }
  for (int64_t reg = 0; reg < access.layout.registers(); reg += chunk) {
    Value inside;
    if (limit) {
      auto [base, offset] = t.coordinate(access.layout, reg, access.layout.map.rank() - 1);
      Value left = arith::SubIOp::create(t.b, t.loc, limit, base);
      inside = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, left, t.constant(offset));
    }
    llvm::append_range(elements, loadElements(t, access.pointer(reg), element, chunk, inside, pads, {}));
  }
  t.defineElements(op, elements);
  return success();
}

LogicalResult lowerStagedTile(ThreadLowering& t, tgpu::StagedTileOp op) {
  BufferAccess access(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), op.getType());
  Type element = t.elementType(op.getType());
  SmallVector<Value> elements;
  for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk)
    llvm::append_range(elements, loadElements(t, access.pointer(reg), element, access.chunk, {}, {}, {}));
  t.defineElements(op, elements);
  return success();
}

// cp.async fills up with zeros what lies outside of the view.
LogicalResult lowerAsyncCopy(ThreadLowering& t, tgpu::AsyncCopyOp op) {
  constexpr int64_t kBytes = 16;
  Value staged = stagedTile(op);
  if (!staged) return success();  // nobody reads it
  auto type = cast<RankedTensorType>(staged.getType());
  TileAccess from(t, op.getView(), op.getIndices(), op.getTileShape(), type);
  BufferAccess to(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), type);
  if (from.chunk * from.bytes() != kBytes || to.chunk != from.chunk)
    return op.emitOpError("copies ") << kBytes << " bytes at a time, but a thread's neighbouring elements are "
                                     << std::min(from.chunk, to.chunk) * from.bytes() << " bytes";
  for (int64_t reg = 0; reg < from.registers(); reg += from.chunk) {
    Value bytes = from.bytesInside(reg);
    Value target = sharedAddress(t, to.pointer(reg));
    if (bytes)
      inlinePtx(t, {}, {target, from.pointer(reg), bytes}, "cp.async.cg.shared.global [$0], [$1], 16, $2;",
                "r,l,r,~{memory}");
    else
      inlinePtx(t, {}, {target, from.pointer(reg)}, "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}");
  }
  return success();
}

LogicalResult lowerAsyncCommit(ThreadLowering& t, tgpu::AsyncCommitOp) {
  inlinePtx(t, {}, {}, "cp.async.commit_group;", "~{memory}");
  return success();
}

LogicalResult lowerAsyncWait(ThreadLowering& t, tgpu::AsyncWaitOp op) {
  inlinePtx(t, {}, {}, "cp.async.wait_group " + std::to_string(op.getPending()) + ";", "~{memory}");
  return success();
}

LogicalResult lowerBarrier(ThreadLowering& t, tgpu::BarrierOp) {
  NVVM::Barrier0Op::create(t.b, t.loc);
  return success();
}

LogicalResult lowerClusterArrive(ThreadLowering& t, tgpu::ClusterArriveOp) {
  NVVM::ClusterArriveRelaxedOp::create(t.b, t.loc, t.b.getUnitAttr());
  return success();
}

LogicalResult lowerClusterWait(ThreadLowering& t, tgpu::ClusterWaitOp) {
  NVVM::ClusterWaitOp::create(t.b, t.loc, t.b.getUnitAttr());
  return success();
}

LogicalResult lowerClusterBarrier(ThreadLowering& t, tgpu::ClusterBarrierOp) {
  NVVM::ClusterArriveOp::create(t.b, t.loc, t.b.getUnitAttr());
  NVVM::ClusterWaitOp::create(t.b, t.loc, t.b.getUnitAttr());
  return success();
}

}  // namespace

void addSharedLowerings(LoweringTable& table) {
  table.add<tgpu::LocalAllocOp, lowerLocalAlloc>();
  table.add<tgpu::LocalStageOp, lowerLocalStage>();
  table.add<tgpu::LocalStoreOp, lowerLocalStore>();
  table.add<tgpu::LocalLoadOp, lowerLocalLoad>();
  table.add<tgpu::AsyncCopyOp, lowerAsyncCopy>();
  table.add<tgpu::StagedTileOp, lowerStagedTile>();
  table.add<tgpu::AsyncCommitOp, lowerAsyncCommit>();
  table.add<tgpu::AsyncWaitOp, lowerAsyncWait>();
  table.add<tgpu::BarrierOp, lowerBarrier>();
  table.add<tgpu::RemoteStoreOp, lowerRemoteStore>();
  table.add<tgpu::ClusterArriveOp, lowerClusterArrive>();
  table.add<tgpu::ClusterWaitOp, lowerClusterWait>();
  table.add<tgpu::ClusterBarrierOp, lowerClusterBarrier>();
}

}  // namespace ligerdsl::compiler::nvptx
