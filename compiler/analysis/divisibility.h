// Finds numbers that provably divide an integer scalar. The proof uses constants, facts about
// views, assume_divisible, and arithmetic on such values.
#pragma once

#include <cstdint>

#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

/// Returns a number that divides `value` in every execution, 1 if nothing is known, or 0 if the
/// value is known to be 0.
int64_t divisorOf(mlir::Value value);

/// Returns true if `factor`, which is greater than 0, provably divides the value.
inline bool isMultiple(mlir::Value value, int64_t factor) {
  return divisorOf(value) % factor == 0;
}

/// Returns the largest power of two that divides a number, or 2^40 for 0.
inline int64_t powerOfTwoPart(int64_t number) {
  return number == 0 ? int64_t{1} << 40 : number & -number;
}

}  // namespace ligerdsl::compiler
