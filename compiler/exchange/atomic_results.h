// Old values of atomics: one thread per element gets the value, and every holder of the element
// needs it.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Replaces scalar atomics whose old value is used by atomics on tiles of one element. Runs before
/// layouts are assigned.
void tileScalarAtomics(mlir::func::FuncOp func);

/// Sends old values from the owners of replicated elements to the other holders. Runs after layouts
/// are assigned.
void shareAtomicResults(mlir::func::FuncOp func);

}  // namespace ligerdsl::compiler
