// A kernel that reports broken assumptions instead of relying on them: for launches that are validated.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace ligerdsl::program {

struct CheckedAssumptions {
  Program program;                   // takes one more argument, the last: a pointer to an i64
  std::vector<std::string> reports;  // "file:line:column: error: assume: ..." of number i
};

// Where an assumption does not hold, -1 - i is stored through the added argument, i being the assumption's number, and
// the program goes on. Nothing is assumed of what is checked, so that no code before the check counts on it.
CheckedAssumptions check_assumptions(const Program& program);

}  // namespace ligerdsl::program
