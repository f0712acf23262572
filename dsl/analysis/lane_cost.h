// GPU instructions per element of an operation on tiles.
#pragma once

#include "program/program.h"

namespace ligerdsl::analysis {

struct LaneCost {
  double lanes = 0;      // instructions on plain lanes, of which an SM has 128 per clock
  double functions = 0;  // instructions on the MUFU, which has 16 lanes per clock
};

// Returns the cost of one element. `operand` is the first operand's dtype, `result` the result's.
// Operations that only name or move values cost nothing.
LaneCost lane_cost(const program::Op& op, DType operand, DType result);

}  // namespace ligerdsl::analysis
