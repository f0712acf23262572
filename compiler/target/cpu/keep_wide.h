// Leaves words in the wide integers that they were cut from, where they only meet others of these before they are widened
// again: each way from vector lanes of one width to another is an instruction or two, and 32 x 32 -> 64 bits products read
// 64-bit lanes whose upper halves do not matter.
//
//   1. trunc(a) ^ trunc(b)             -> trunc(a ^ b)                 also of & and |
//   2. trunc(a) ^ splat k, then widened -> trunc(a ^ splat(zext k))     also constants
//   3. zext(trunc(a))                  -> a & 0xffffffff               also sext(trunc(a)) & 0xffffffff
//
// A round of Philox on W words becomes two products, two shifts and two ternary exclusive ors of W 64-bit lanes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void keepWide(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
