// Rejects ops on which LLVM's NVPTX back end would abort. The error names the author's line.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler::nvptx {

/// Checks per-thread code (arith, math, llvm) before it becomes LLVM IR. Fails if the back end
/// cannot select a remaining math op, or does not support an op's float type.
mlir::LogicalResult verifyLegality(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler::nvptx
