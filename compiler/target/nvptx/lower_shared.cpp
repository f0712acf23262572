// Lowers shared-memory ops: buffers, loads and stores of tiles in a CTA or cluster, and barriers.
#include "compiler/analysis/effects.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/load_matrix.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// The only piece of a buffer is its address in shared memory.
LogicalResult lowerLocalAlloc(ThreadLowering& t, tgpu::LocalAllocOp op) {
  if (!op.getOffset()) return op.emitOpError("has no offset: run tgpu-allocate-shared first");
  t.define(op, {t.sharedPointer(*op.getOffset())});
  return success();
}

LogicalResult lowerLocalStage(ThreadLowering& t, tgpu::LocalStageOp op) {
  t.define(op, {bufferPart(t, t.scalar(op.getBuffer()), t.scalar(op.getIndex()),
                           bufferBytes(op.getType()))});
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

// Returns the address of this buffer in another CTA of the cluster.
Value inCta(ThreadLowering& t, Value buffer, Value rank) {
  constexpr unsigned kClusterSpace = 7;
  auto type = LLVM::LLVMPointerType::get(t.b.getContext(), kClusterSpace);
  return NVVM::MapaOp::create(t.b, t.loc, type, buffer, rank);
}

// If at least num_ctas lanes hold the same values, each of these lanes stores to a different CTA.
// Otherwise, or with `owners_only`, the owner of the values stores to all CTAs.
LogicalResult lowerRemoteStore(ThreadLowering& t, tgpu::RemoteStoreOp op) {
  auto tile = cast<RankedTensorType>(op.getValue().getType());
  SmallVector<Value> elements = t.elements(op.getValue());
  const LinearLayout& map = t.layout(tile).map;
  BitMasks redundant = map.redundant();
  const int64_t ctas = t.options.num_ctas, bits = llvm::Log2_64(ctas);
  auto storeTo = [&](Value rank) {
    BufferAccess access(t, op.getBuffer().getType(), inCta(t, t.scalar(op.getBuffer()), rank),
                        tile);
    storeAll(access, elements);
  };
  const int64_t first = llvm::countr_zero(redundant.lane);
  const uint64_t serving = static_cast<uint64_t>(ctas - 1) << first;
  if (!op.getOwnersOnly() && redundant.lane != 0 && (redundant.lane & serving) == serving) {
    const int64_t others =
        (redundant.lane & ~serving) | redundant.warp << 5 | redundant.cta * 32 * t.numWarps();
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
  if (op.getBuffer().getType().getSwizzle())
    if (const auto matrices =
            loadMatrices(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), tile, {}))
      return t.defineElements(op, *matrices), success();
  BufferAccess access(t, op.getBuffer().getType(), t.scalar(op.getBuffer()), tile);
  Type element = t.elementType(op.getType());
  SmallVector<Value> elements;
  for (int64_t reg = 0; reg < access.layout.registers(); reg += access.chunk)
    llvm::append_range(elements,
                       loadElements(t, access.pointer(reg), element, access.chunk, {}, {}, {}));
  t.defineElements(op, elements);
  return success();
}

LogicalResult lowerBarrier(ThreadLowering& t, tgpu::BarrierOp op) {
  if (fencesProxies(op)) fenceAsyncProxy(t);
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
  table.add<tgpu::BarrierOp, lowerBarrier>();
  table.add<tgpu::RemoteStoreOp, lowerRemoteStore>();
  table.add<tgpu::ClusterArriveOp, lowerClusterArrive>();
  table.add<tgpu::ClusterWaitOp, lowerClusterWait>();
  table.add<tgpu::ClusterBarrierOp, lowerClusterBarrier>();
}

}  // namespace ligerdsl::compiler::nvptx
