// The rules that every Program obeys. The builder records only such programs; readers of bytes check them.
#pragma once

#include "program/program.h"

namespace ligerdsl::program {

// Throws std::runtime_error naming the op and what is wrong with it.
void verify(const Program& program);

}  // namespace ligerdsl::program
