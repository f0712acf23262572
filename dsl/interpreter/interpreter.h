// Runs a Program in memory; see the public header.
#pragma once

#include "ligerdsl/dsl/interpreter.h"
#include "program/program.h"

namespace ligerdsl::interpreter {

class AccessLog;

// `log` is an AccessLog for these arguments, or null. With a log, races are errors, as with
// Options::find_races.
void run(const program::Program& program, const Arguments& arguments, Grid grid,
         const Options& options = {}, AccessLog* log = nullptr);

}  // namespace ligerdsl::interpreter
