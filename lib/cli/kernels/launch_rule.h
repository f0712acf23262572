// How a loaded kernel is compiled where it is not run: as its own launch rule says.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <string>

#include "program/program.h"

namespace ligerdsl::cli {

// The launch on the target for the arguments that `settings` name ("x=4096x512", "y=x", "n=3"), with num_warps and the
// like as the settings say instead. What they leave open the rule is asked with several sizes of; a rule whose answer,
// but for the grid, depends on them must be given them. Throws Failure (kUsage).
Launch launch_of(const AnyKernel& kernel, const MetaValues& meta, const program::Program& program,
                 std::map<std::string, std::string> settings, const Target& target);

}  // namespace ligerdsl::cli
