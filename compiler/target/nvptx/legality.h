// Rejects ops on which LLVM's NVPTX back end would abort. The error names the author's line.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler::nvptx {

/// Checks per-thread code (arith, math, llvm) before it becomes LLVM IR. Fails if a math op remains
/// that the back end cannot select, or if an op computes a float type that it does not support.
mlir::LogicalResult verifyLegality(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler::nvptx
