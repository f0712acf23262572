// Rejects what LLVM's NVPTX back end would die on, at the author's line.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler::nvptx {

/// Checks per-thread code (arith, math, llvm) before it becomes LLVM IR: every math op left must be one that the back
/// end selects.
mlir::LogicalResult verifyLegality(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler::nvptx
