// Programmatic dependent launch.
//
// Inline PTX that clobbers memory: NVVM's own intrinsics for these instructions are declared to touch none, and LLVM
// would move loads across them.
#include "compiler/target/nvptx/thread_lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void gridDependency(ThreadLowering& t, StringRef action) {
  LLVM::InlineAsmOp::create(t.b, t.loc, TypeRange(), ValueRange(), ("griddepcontrol." + action + ";").str(),
                            "~{memory}",
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

}  // namespace

void addOverlapLowerings(LoweringTable& table) {
  table.add<tgpu::GridWaitOp, lowerGridWait>();
  table.add<tgpu::LaunchDependentsOp, lowerLaunchDependents>();
}

}  // namespace ligerdsl::compiler::nvptx
