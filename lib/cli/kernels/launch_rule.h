// Launch options of a kernel loaded with --load that is compiled but not run, from its launch rule.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <string>

#include "program/program.h"

namespace ligerdsl::cli {

// Returns the launch on the target for the arguments in `settings` ("x=4096x512", "y=x", "n=3");
// num_warps and other launch settings override the rule. For arguments without a setting, calls the
// rule with several sizes. Throws Failure (kUsage) if its result, except the grid, depends on these
// sizes.
Launch launch_of(const AnyKernel& kernel, const MetaValues& meta, const program::Program& program,
                 std::map<std::string, std::string> settings, const Target& target);

}  // namespace ligerdsl::cli
