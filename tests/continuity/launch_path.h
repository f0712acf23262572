// Facts about a launch, from which path_rules derives the expected accesses and multiplications.
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
  size_t slot = 0;  // slot of its pointer
  // Bytes per access that sizes, strides and facts permit. 0: no rule applies, because the argument
  // has small tiles or no contiguous rows, or because the facts permit one element.
  int vector = 0;
  bool is_operand = false;  // operand of a dot, with rows that asynchronous copies accept
};

// A loop of the program with 16-bit dots.
struct DotLoop {
  double multiply_adds = 0;  // multiply-adds per iteration and CTA
};

struct LaunchPath {
  bool has_wgmma = false;    // the architecture has it
  int threads = 0;           // threads per CTA, without copy warps
  double multiply_adds = 0;  // multiply-adds of 16-bit dots in the launch
  std::vector<ArgumentPath> arguments;
  std::vector<DotLoop> loops;  // empty if the program also has such dots outside of its loops
};

LaunchPath launch_path(const program::Program& program, const program::CompileOptions& options,
                       kernels::Variant variant, const analysis::Work& work);

}  // namespace ligerdsl::test
