// What is known to divide an integer scalar: from numbers, facts about views, assume_divisible and arithmetic on these.
#pragma once

#include <cstdint>

#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

/// A number that divides `value` in every execution, 1 if nothing is known; 0 for the number 0, which all divide.
int64_t divisorOf(mlir::Value value);

/// Whether `factor` divides it, factor > 0.
inline bool isMultiple(mlir::Value value, int64_t factor) {
  return divisorOf(value) % factor == 0;
}

/// The largest power of two that divides a number; 2^40 for 0.
inline int64_t powerOfTwoPart(int64_t number) {
  return number == 0 ? int64_t{1} << 40 : number & -number;
}

}  // namespace ligerdsl::compiler
