// Instructions of a GPU per element of an operation on tiles.
#pragma once

#include "program/program.h"

namespace ligerdsl::analysis {

struct LaneCost {
  double lanes = 0;      // slots of the 128 lanes of an SM per clock
  double functions = 0;  // instructions of the MUFU, which has 16 lanes per clock
};

// Returns the cost of one element. `operand` is the dtype of the first operand, `result` that of
// the result. Operations that only name or move values cost nothing.
LaneCost lane_cost(const program::Op& op, DType operand, DType result);

}  // namespace ligerdsl::analysis
