// What a launch, and what its caller promises about the arguments, tell the compiler: one rule for the launcher and for
// whatever else compiles a kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/argument_facts.h"
#include "ligerdsl/dsl/kernel.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// What the caller promises about one argument of a program.
struct ArgPromise {
  uint32_t alias_class = 0;    // as program::ArgFacts
  std::vector<int64_t> exact;  // views: per dimension, the size or -1; empty = what the program says

  bool operator==(const ArgPromise&) const = default;
};

// That no two arguments share memory.
std::vector<ArgPromise> all_apart(const program::Program& program);

// base: the device and what else a launch does not decide. promises: one per argument of the program, or none.
program::CompileOptions compile_options(program::CompileOptions base, const program::Program& program,
                                        const Launch& launch, Variant variant, std::vector<ArgPromise> promises = {});

}  // namespace ligerdsl::kernels
