// Runs a Program: the public header says how, this is the form for code that has one in memory.
#pragma once

#include "ligerdsl/dsl/interpreter.h"
#include "program/program.h"

namespace ligerdsl::interpreter {

void run(const program::Program& program, const Arguments& arguments, Grid grid, const Options& options = {});

}  // namespace ligerdsl::interpreter
