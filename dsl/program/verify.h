// Checks the rules that every Program must follow. The builder records only valid programs; readers
// of bytes call this.
#pragma once

#include "program/program.h"

namespace ligerdsl::program {

// Throws std::runtime_error with the op and the violated rule.
void verify(const Program& program);

}  // namespace ligerdsl::program
