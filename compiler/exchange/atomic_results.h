// Distributes the old values that atomics return. One thread per element executes the atomic, and
// every holder of the element needs the value.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// If the old value of a scalar atomic is used, replaces the atomic by one on a tile of one
/// element. Runs before layouts are assigned.
void tileScalarAtomics(mlir::func::FuncOp func);

/// Sends old values from the owners of replicated elements to the other holders. Runs after layouts
/// are assigned.
void shareAtomicResults(mlir::func::FuncOp func);

}  // namespace ligerdsl::compiler
