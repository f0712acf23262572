// Lowers the ops of programmatic dependent launch (PTX ISA: griddepcontrol).
//
// The instructions are inline PTX that clobbers memory. NVVM's intrinsics for them are declared to
// access no memory, so LLVM would move loads across them.
#include "compiler/target/nvptx/thread_lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void gridDependency(ThreadLowering& t, StringRef action) {
  LLVM::InlineAsmOp::create(
      t.b, t.loc, TypeRange(), ValueRange(), ("griddepcontrol." + action + ";").str(), "~{memory}",
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr::get(t.b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
}

LogicalResult lowerGridWait(ThreadLowering& t, tgpu::GridWaitOp) {
  gridDependency(t, "wait");
  return success();
}

LogicalResult lowerLaunchDependents(ThreadLowering& t, tgpu::LaunchDependentsOp) {
  gridDependency(t, "launch_dependents");
  return success();
}

// The result is true in the grid's first programs, up to the number that the GPU can run at once.
// Programs mostly start in the order of their ids, so when later programs start, the previous grid
// has finished. A wrong guess costs only useless prefetches.
LogicalResult lowerMayWait(ThreadLowering& t, tgpu::MayWaitOp op) {
  Type i32 = t.b.getI32Type();
  Value threads =
      arith::MulIOp::create(t.b, t.loc, NVVM::SmDimOp::create(t.b, t.loc, i32).getResult(),
                            t.constant(t.arch().threads_per_sm));
  Value places = arith::DivUIOp::create(t.b, t.loc, threads, t.constant(t.numThreads()));
  Value x = t.options.num_ctas > 1 ? NVVM::ClusterIdXOp::create(t.b, t.loc, i32).getResult()
                                   : NVVM::BlockIdXOp::create(t.b, t.loc, i32).getResult();
  Value plane =
      arith::OrIOp::create(t.b, t.loc, NVVM::BlockIdYOp::create(t.b, t.loc, i32).getResult(),
                           NVVM::BlockIdZOp::create(t.b, t.loc, i32).getResult());
  Value isEarly = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, x, places);
  Value isFirstPlane =
      arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, plane, t.constant(0));
  t.define(op, {Value(arith::AndIOp::create(t.b, t.loc, isEarly, isFirstPlane))});
  return success();
}

}  // namespace

void addOverlapLowerings(LoweringTable& table) {
  table.add<tgpu::GridWaitOp, lowerGridWait>();
  table.add<tgpu::LaunchDependentsOp, lowerLaunchDependents>();
  table.add<tgpu::MayWaitOp, lowerMayWait>();
}

}  // namespace ligerdsl::compiler::nvptx
