// Facts about a launch. path_rules derives the expected accesses and matmuls from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/work.h"
#include "kernels/core/argument_facts.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::test {

struct ArgumentPath {
  std::string name;
  size_t slot = 0;  // kernel parameter that holds the argument's pointer
  // Bytes per access that sizes, strides and facts permit. 0 if the vector rule does not apply: the
  // argument has small tiles or no contiguous rows, or the facts permit only one element.
  int vector = 0;
  bool is_operand = false;  // a dot reads it, and its rows are aligned for asynchronous copies
};

// One loop of the program that contains 16-bit dots.
struct DotLoop {
  double multiply_adds = 0;  // multiply-adds of one iteration, per CTA
};

struct LaunchPath {
  bool has_wgmma = false;    // true if the architecture has wgmma
  int threads = 0;           // threads per CTA, not counting copy warps
  double multiply_adds = 0;  // multiply-adds of 16-bit dots in the launch
  std::vector<ArgumentPath> arguments;
  std::vector<DotLoop> loops;  // empty if a 16-bit dot is outside of all loops
};

LaunchPath launch_path(const program::Program& program, const program::CompileOptions& options,
                       kernels::Variant variant, const analysis::Work& work);

}  // namespace ligerdsl::test
