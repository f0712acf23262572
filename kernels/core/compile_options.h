// Compile options, computed from a launch and its caller's promises about the arguments. The
// launcher and all other users of the compiler call this function.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/argument_facts.h"
#include "ligerdsl/dsl/kernel.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// Promise of the caller about one argument of a program.
struct ArgPromise {
  uint32_t alias_class = 0;    // as in program::ArgFacts
  std::vector<int64_t> exact;  // views: size of each dimension, or -1; empty: the program's sizes
  int64_t pointer_align = 1;   // bytes; the address of the view is a multiple of this

  bool operator==(const ArgPromise&) const = default;
};

// Returns the promise that no two arguments share memory.
std::vector<ArgPromise> all_disjoint(const program::Program& program);

// Returns the compile options. `base` has the device and all options that a launch does not set.
// `promises` is empty or has one element per argument of the program.
program::CompileOptions compile_options(program::CompileOptions base,
                                        const program::Program& program, const Launch& launch,
                                        Variant variant, std::vector<ArgPromise> promises = {});

}  // namespace ligerdsl::kernels
