// Old values of atomics, which one thread per element learns and every holder needs.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Scalar atomics whose old value is used become atomics on tiles of one element (before layouts are assigned).
void tileScalarAtomics(mlir::func::FuncOp func);

/// Sends old values from the owners of replicated elements to the other holders (after layouts are assigned).
void shareAtomicResults(mlir::func::FuncOp func);

}  // namespace ligerdsl::compiler
