// Gives a reduction the shape of a store before it, so that both share a loop and compute common
// values once.
//
//   store %gradient : 1 x N
//   reduce (reshape %loss : 1 x N -> N) to a scalar
//
// becomes
//
//   store %gradient : 1 x N
//   reduce (reduce %loss : 1 x N along axis 1) to a scalar
//
// The elements are reduced in the same order as before.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void shareLoops(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
