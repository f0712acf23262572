// tgpu-overlap-launches
//
// Makes a kernel that may start while the one before it on its stream still runs:
//
//   1. Find the first op of the kernel's outermost block that may touch memory of other kernels, by itself or inside a
//      region. Ops on shared memory may not; an op whose effects are unknown may.
//   2. A tgpu.grid_wait in front of it, or at the end if there is none. In the outermost block it is reached by every
//      thread, so that no grid ends before the grids that it depends on: who waits for this one waits for those too.
//   3. A tgpu.launch_dependents right behind it: by then everything before this grid has ended, so that at most two
//      grids of a chain run at a time, and every CTA of this grid is on the machine when the next one's first arrives.
//
// docs/architecture.md says why this is right whatever runs before or after.
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

bool touchesOnlyShared(Operation* op) {
  return isa<tgpu::LocalAllocOp, tgpu::LocalStoreOp, tgpu::LocalLoadOp, tgpu::BarrierOp, tgpu::InitMbarriersOp,
             tgpu::AwaitFillOp, tgpu::FenceCopiesOp, tgpu::RemoteStoreOp, tgpu::SendOp, tgpu::ReceiveOp,
             tgpu::ClusterBarrierOp, tgpu::ClusterArriveOp, tgpu::ClusterWaitOp>(op);
}

// Whether other kernels may see what this op, without its regions, does, or it what they do.
bool mayTouchGlobal(Operation* op) {
  if (touchesOnlyShared(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>()) return false;
  return !isMemoryEffectFree(op);
}

bool needsGridWait(Operation& op) {
  return op
      .walk([](Operation* inner) { return mayTouchGlobal(inner) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}

class TgpuOverlapLaunchesPass : public PassWrapper<TgpuOverlapLaunchesPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuOverlapLaunchesPass)
  StringRef getArgument() const override { return "tgpu-overlap-launches"; }
  StringRef getDescription() const override {
    return "Wait for earlier grids before the first access to global memory";
  }

  void runOnOperation() override {
    Block& body = getOperation().getBody().front();
    auto first = llvm::find_if(body.without_terminator(), needsGridWait);
    Operation& at = first == body.without_terminator().end() ? *body.getTerminator() : *first;
    OpBuilder builder(&at);
    tgpu::GridWaitOp::create(builder, at.getLoc());
    tgpu::LaunchDependentsOp::create(builder, at.getLoc());
  }
};

}  // namespace

std::unique_ptr<Pass> createTgpuOverlapLaunchesPass() {
  return std::make_unique<TgpuOverlapLaunchesPass>();
}

}  // namespace ligerdsl::compiler
