// Rejects ops on which LLVM's NVPTX back end would abort. The error names the author's line.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler::nvptx {

/// Checks the arith and math ops of per-thread code before they become LLVM IR. Fails if the back
/// end cannot select a remaining math op, or does not support an op's float type.
mlir::LogicalResult verifyLegality(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler::nvptx
