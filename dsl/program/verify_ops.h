// Checks the operands, results, attributes and regions of an op. Both functions return "" or an
// error.
#pragma once

#include <string>

#include "program/program.h"

namespace ligerdsl::program {

// Checks one op. Ids of operands, results and region arguments must be inside the value table.
std::string checkOp(const Program& program, const Op& op);

// Checks the types that `region` of `op` yields. The region must already be verified.
std::string checkYield(const Program& program, const Op& op, const Region& region);

}  // namespace ligerdsl::program
