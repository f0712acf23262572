// Errors of the author or the caller that only a pipeline finds, such as an oversized tile or an
// out-of-range option.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

inline constexpr llvm::StringLiteral kRefusedAttr = "ligerdsl.refused";

/// Marks the module after such an error, so that compile() reports a wrong program or option, not a
/// compiler bug.
inline void markRefused(mlir::Operation* op) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(op);
  if (!module) module = op->getParentOfType<mlir::ModuleOp>();
  if (module) module->setAttr(kRefusedAttr, mlir::UnitAttr::get(op->getContext()));
}

}  // namespace ligerdsl::compiler
