// Mistakes of the author or the caller that only a pipeline finds: too large a tile, an option out of range.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

inline constexpr llvm::StringLiteral kRefusedAttr = "ligerdsl.refused";

/// Called where such an error is emitted. compile() then reports a wrong program or wrong options, not a bug of the compiler.
inline void markRefused(mlir::Operation* op) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(op);
  if (!module) module = op->getParentOfType<mlir::ModuleOp>();
  if (module) module->setAttr(kRefusedAttr, mlir::UnitAttr::get(op->getContext()));
}

}  // namespace ligerdsl::compiler
