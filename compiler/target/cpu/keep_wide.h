// Removes truncations of integer tiles whose results are extended again after bitwise ops only. The
// bitwise ops then run on the wide integers. This saves the conversions between vector lanes of two
// widths, one or two instructions each. 32 x 32 -> 64-bit multiplications read 64-bit lanes anyway
// and ignore the upper halves.
//
//   1. trunc(a) ^ trunc(b)               -> trunc(a ^ b)               also for & and |
//   2. trunc(a) ^ splat k, then extended -> trunc(a ^ splat(zext k))   also for constant tiles
//   3. zext(trunc(a))                    -> a & 0xffffffff
//      sext(trunc(a)) & 0xffffffff       -> a & 0xffffffff
//
// A round of Philox on W words becomes two multiplications, two shifts and two three-operand
// exclusive ors on W 64-bit lanes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

void keepWide(mlir::func::FuncOp function);

}  // namespace ligerdsl::compiler::cpu
