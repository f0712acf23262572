// Rules for the PTX of a kernel: it must do what the cost model assumes.
//
//   rule           the kernel
//   wgmma          multiplies 16-bit tiles by wgmma, not by mma.sync, in launches of more than 1e8
//                  multiply-adds
//   local          has no local memory
//   vectors        accesses arguments with the widest vectors that the facts permit, in hot blocks.
//                  Arguments with small tiles are exempt.
//   copies         does not load an operand of wgmma by threads, in hot blocks
//   barrier        does not stop all threads in a loop of TMA copies
//   multiply_adds  multiplies in a loop as much as the program's loop does
#pragma once

#include <string>
#include <vector>

#include "tests/continuity/launch_path.h"

namespace ligerdsl::test {

struct BrokenRule {
  std::string rule, numbers;
};

struct Verdict {
  std::vector<std::string> applied;  // rules that have something to check in this kernel
  std::vector<BrokenRule> broken;    // each rule at most once
};

// Throws std::runtime_error on PTX that tests/support/ptx cannot parse.
Verdict check_rules(const std::string& ptx, const LaunchPath& path);

}  // namespace ligerdsl::test
