#include "compiler/analysis/effects.h"

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

bool isAddress(Value value) {
  return isa<tile::ViewType, tile::PtrType, tgpu::MemDescType, tgpu::RingType>(
      getElementTypeOrSelf(value.getType()));
}

bool isFilledByBulkCopies(Operation* op) {
  auto fill = dyn_cast<tgpu::RingFillOp>(op);
  return fill && fill.getRing().getType().hasBarriers();
}

// Returns true for ops that declare effects only so that other ops are not moved across them.
bool ordersGlobal(Operation* op) {
  return isa<tile::AssumeOp, tile::PrintOp, tile::PrefetchTileOp, tgpu::GridWaitOp,
             tgpu::LaunchDependentsOp,
             tgpu::OpaqueOp>(op) ||
         isFilledByBulkCopies(op);  // the ring's mbarriers order the accesses
}
bool isOwnAwait(Operation* op) {
  auto await = dyn_cast<tgpu::RingAwaitOp>(op);
  return await && await.getRing().getType().getFill() == tgpu::RingFill::asyncOwn;
}
bool ordersShared(Operation* op) {
  if (isOwnAwait(op)) return false;
  return isa<tgpu::BarrierOp, tgpu::ClusterReceiveOp, tgpu::ClusterBarrierOp, tgpu::ClusterArriveOp,
             tgpu::ClusterWaitOp, tgpu::LocalAllocOp, tgpu::RingOp, tgpu::RingAwaitOp,
             tgpu::RingReleaseOp, tgpu::WgmmaWaitOp>(op);
}

// Returns the effects of an op that reads some operands and writes others, or nothing for other
// ops.
std::optional<OperandEffects> ownEffects(Operation* op) {
  if (auto fill = dyn_cast<tgpu::RingFillOp>(op)) {
    OperandEffects effects;
    for (Value view : fill.getViews()) effects.push_back({view, true, false});
    effects.push_back({fill.getRing(), false, true});
    return effects;
  }
  if (auto store = dyn_cast<tgpu::TensorStoreOp>(op))
    return OperandEffects{{store.getBuffer(), true, false}, {store.getView(), false, true}};
  if (auto wait = dyn_cast<tgpu::TensorWaitOp>(op))
    return OperandEffects{{wait.getBuffer(), true, false}};
  // A thread's own copies may write the slot until this wait, so the wait counts as a write.
  if (isOwnAwait(op)) return OperandEffects{{cast<tgpu::RingAwaitOp>(op).getRing(), false, true}};
  if (auto send = dyn_cast<tgpu::ClusterSendOp>(op)) {
    OperandEffects effects;
    for (Value stages : send.getStages()) effects.push_back({stages, false, true});
    return effects;
  }
  return std::nullopt;
}

}  // namespace

bool OperandEffect::isShared() const {
  return isa<tgpu::MemDescType, tgpu::RingType>(address.getType());
}

FailureOr<OperandEffects> effectsOf(Operation* op) {
  if (ordersGlobal(op) || ordersShared(op) || isa<func::FuncOp>(op)) return OperandEffects{};
  if (std::optional<OperandEffects> own = ownEffects(op)) return *own;
  auto declared = dyn_cast<MemoryEffectOpInterface>(op);
  if (!declared) {
    if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>()) return OperandEffects{};
    return failure();
  }
  const bool reads = declared.hasEffect<MemoryEffects::Read>(),
             writes = declared.hasEffect<MemoryEffects::Write>();
  OperandEffects effects;
  if (declared.hasNoEffect()) return effects;
  for (Value operand : op->getOperands())
    if (isAddress(operand)) effects.push_back({operand, reads, writes});
  if (effects.empty() || !(reads || writes)) return failure();
  return effects;
}

bool synchronisesThreads(Operation* op) {
  if (auto ring = dyn_cast<tgpu::RingOp>(op)) return ring.getType().hasBarriers();
  if (auto await = dyn_cast<tgpu::RingAwaitOp>(op))
    return await.getRing().getType().getFill() == tgpu::RingFill::async;
  return isa<tgpu::BarrierOp, tgpu::RingReleaseOp>(op);
}

bool fencesProxies(Operation* op) {
  if (auto await = dyn_cast<tgpu::RingAwaitOp>(op)) return await.getForWgmma();
  if (auto release = dyn_cast<tgpu::RingReleaseOp>(op))
    return release.getRing().getType().getFill() != tgpu::RingFill::tensor;
  return op->hasAttr(kProxyFenceAttr);
}

bool readsMemory(Operation* op) {
  FailureOr<OperandEffects> effects = effectsOf(op);
  return failed(effects) ||
         llvm::any_of(*effects, [](const OperandEffect& effect) { return effect.reads; });
}

bool writesMemory(Operation* op) {
  FailureOr<OperandEffects> effects = effectsOf(op);
  return failed(effects) ||
         llvm::any_of(*effects, [](const OperandEffect& effect) { return effect.writes; });
}

bool touchesOnlyShared(Operation* op) {
  if (ordersShared(op)) return true;
  if (ordersGlobal(op)) return false;
  FailureOr<OperandEffects> effects = effectsOf(op);
  return succeeded(effects) && !effects->empty() &&
         llvm::all_of(*effects, [](const OperandEffect& effect) { return effect.isShared(); });
}

LogicalResult verifyEffects(Operation* root) {
  WalkResult walk = root->walk([&](Operation* op) {
    if (op == root || succeeded(effectsOf(op))) return WalkResult::advance();
    op->emitOpError(
        "has unknown effects on memory; declare in its .td that it is Pure, or what it does "
        "through its operands (compiler/analysis/effects.h)");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

}  // namespace ligerdsl::compiler
