// Converts per-thread code (arith, math, scf) to the LLVM dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult convertToLlvm(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler::nvptx
