// Configuration of a kernel of --load as a program gets it from ligerdsl::tuned (launch.hpp) for
// these settings.
#pragma once

#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/author_call.h"

namespace ligerdsl::cli {

struct TunedAuthor {
  std::string options;  // the call's options in keys of tables
  // Values from a table for fields that the settings do not give. An entry that ligerdsl::tuned
  // would reject is in `source.passed`.
  lib::ConfigSource source;
};

TunedAuthor tuned_author(lib::Context& context, const AnyKernel& kernel,
                         const std::vector<std::string>& settings);

// Returns the settings with values from a table. Settings that choose every field stay unchanged.
// Throws Failure (kUsage) for an entry that ligerdsl::tuned would reject.
std::vector<std::string> tuned_settings(lib::Context& context, const AnyKernel& kernel,
                                        const std::vector<std::string>& settings);

}  // namespace ligerdsl::cli
