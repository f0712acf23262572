// What each op wants of its operands, results, attributes and regions. Both return "" or what is wrong.
#pragma once

#include <string>

#include "program/program.h"

namespace ligerdsl::program {

// Ids of operands, results and region arguments must be inside the value table.
std::string checkOp(const Program& program, const Op& op);

// The types that `region` of `op` yields; the region was verified before.
std::string checkYield(const Program& program, const Op& op, const Region& region);

}  // namespace ligerdsl::program
