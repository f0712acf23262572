// Configuration that a program would get from ligerdsl::tuned (launch.hpp) for a kernel of --load.
#pragma once

#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/author_call.h"

namespace ligerdsl::cli {

struct TunedAuthor {
  std::string options;  // the call's options, as in table keys
  // Table values for fields that settings do not set. An entry that ligerdsl::tuned would reject is
  // in `source.passed`.
  lib::ConfigSource source;
};

TunedAuthor tuned_author(lib::Context& context, const AnyKernel& kernel,
                         const std::vector<std::string>& settings);

// Returns the settings with values from a table. Settings that already choose every field remain
// unchanged. Throws Failure (kUsage) for an entry that ligerdsl::tuned would reject.
std::vector<std::string> tuned_settings(lib::Context& context, const AnyKernel& kernel,
                                        const std::vector<std::string>& settings);

}  // namespace ligerdsl::cli
