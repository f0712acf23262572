// Checks the rules of every Program. The builder records only such programs; readers of bytes check
// them.
#pragma once

#include "program/program.h"

namespace ligerdsl::program {

// Throws std::runtime_error with the op and the violated rule.
void verify(const Program& program);

}  // namespace ligerdsl::program
