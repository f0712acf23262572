// Computes in the branches of an `scf.if` what its result is for, so that no tile has to pass through memory to leave
// it.
//
//   %t = scf.if %c { yield %a } else { yield %b }     scf.if %c { store reduce %a } else { store reduce %b }
//   store (reduce %t)                             ->
//
// 1. The only use of a tile that an `if` gives, be it elementwise, a change of shape, a reduction or a store, moves
//    into both branches; the `if` moves down to its place first. Repeated until a reduction or a store has moved.
// 2. What only the branches use, and neither reads memory nor reduces, moves into the branches that use it.
//
// Nothing moves past a write that it may not pass.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void sinkIntoBranches(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
