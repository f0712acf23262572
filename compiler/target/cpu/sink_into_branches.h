// Moves the user of an `scf.if` result into the branches, so that the tile does not pass through
// memory.
//
//   %t = scf.if %c { yield %a } else { yield %b }
//   store (reduce %t)
//
// becomes
//
//   scf.if %c { store (reduce %a) } else { store (reduce %b) }
//
// 1. If the result has one user, and this user is elementwise, a change of shape, a reduction or a
//    store, the user moves into both branches. The `if` first moves down to the user. This repeats
//    until a reduction or a store has moved.
// 2. Elementwise ops, changes of shape, splats and ranges before the `if` move into the branches if
//    nothing else uses them.
//
// Nothing moves past a conflicting memory access.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void sinkIntoBranches(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
