// Runs a Program: the public header says how, this is the form for code that has one in memory.
#pragma once

#include "ligerdsl/dsl/interpreter.h"
#include "program/program.h"

namespace ligerdsl::interpreter {

class AccessLog;

// `log`: of these arguments; what Options::find_races refuses is then refused too.
void run(const program::Program& program, const Arguments& arguments, Grid grid, const Options& options = {},
         AccessLog* log = nullptr);

}  // namespace ligerdsl::interpreter
