// Number of GPU instructions that an operation on tiles takes per element.
#pragma once

#include "program/program.h"

namespace ligerdsl::analysis {

struct LaneCost {
  double lanes = 0;      // instructions of the ordinary units; an SM executes 128 lanes per clock
  double functions = 0;  // instructions of the special function unit (MUFU); 16 lanes per clock
};

// Returns the cost of one element. `operand` is the dtype of the first operand. Constants and
// changes of shape cost nothing. Callers count memory accesses and dots separately.
LaneCost lane_cost(const program::Op& op, DType operand, DType result);

}  // namespace ligerdsl::analysis
