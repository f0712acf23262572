// Keeps truncated words in the wide integers that they come from, if only bitwise ops use them
// before they are extended again. A conversion between vector lanes of two widths costs an
// instruction or two. 32 x 32 -> 64-bit multiplications read 64-bit lanes and ignore the upper
// halves.
//
//   1. trunc(a) ^ trunc(b)              -> trunc(a ^ b)                also & and |
//   2. trunc(a) ^ splat k, then widened -> trunc(a ^ splat(zext k))    also constants
//   3. zext(trunc(a))                   -> a & 0xffffffff
//      sext(trunc(a)) & 0xffffffff      -> a & 0xffffffff
//
// A round of Philox on W words becomes two multiplications, two shifts and two ternary exclusive
// ors on W 64-bit lanes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void keepWide(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
