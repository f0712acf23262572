// Rewrites a kernel to report broken assumptions instead of relying on them, for validated
// launches.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace ligerdsl::program {

struct CheckedAssumptions {
  Program program;                   // with an additional last argument, a pointer to an i64
  std::vector<std::string> reports;  // reports[i]: "file:line:column: error: assume: ..."
};

// If assumption i does not hold, the program stores -1 - i through the added argument and
// continues. The compiler assumes nothing about checked values, so no code before the check relies
// on them.
CheckedAssumptions check_assumptions(const Program& program);

}  // namespace ligerdsl::program
