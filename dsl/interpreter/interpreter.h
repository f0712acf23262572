// Interprets a Program. ligerdsl/dsl/interpreter.h describes the arguments and options.
#pragma once

#include "ligerdsl/dsl/interpreter.h"
#include "program/program.h"

namespace ligerdsl::interpreter {

class AccessLog;

// `log` is null, or an AccessLog that was made for these arguments. With a log, races are errors,
// as with Options::find_races.
void run(const program::Program& program, const Arguments& arguments, Grid grid,
         const Options& options = {}, AccessLog* log = nullptr);

}  // namespace ligerdsl::interpreter
