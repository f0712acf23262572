// Rules for the PTX of a kernel. They check that the kernel does what the cost model assumes.
//
//   rule           the kernel
//   wgmma          multiplies 16-bit tiles by wgmma, not by mma.sync, in launches of more than 1e8
//                  multiply-adds
//   local          has no local memory
//   vectors        accesses arguments with the widest vectors that the facts permit, in hot blocks.
//                  Arguments with small tiles are exempt.
//   copies         does not load operands of wgmma by threads (ld.global), in hot blocks
//   barrier        has no barrier of all threads in a loop of TMA copies
//   multiply_adds  executes in each iteration the multiply-adds of the program's loop
#pragma once

#include <string>
#include <vector>

#include "tests/continuity/launch_path.h"

namespace ligerdsl::test {

struct BrokenRule {
  std::string rule, numbers;
};

struct Verdict {
  std::vector<std::string> applied;  // rules that apply to this kernel
  std::vector<BrokenRule> broken;    // each rule at most once
};

// Throws std::runtime_error on PTX that tests/support/ptx cannot parse.
Verdict check_rules(const std::string& ptx, const LaunchPath& path);

}  // namespace ligerdsl::test
