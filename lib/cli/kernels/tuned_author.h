// Configuration that a program would get from ligerdsl::tuned (launch.hpp) for a kernel loaded with
// --load.
#pragma once

#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/author_call.h"

namespace ligerdsl::cli {

struct TunedAuthor {
  std::string options;  // text that identifies the call in table keys
  // Table values of the fields that have no setting. If ligerdsl::tuned would reject the entry,
  // `source.passed` has the reason.
  lib::ConfigSource source;
};

TunedAuthor tuned_author(lib::Context& context, const AnyKernel& kernel,
                         const std::vector<std::string>& settings);

// Returns the settings and the values from a table for fields without a setting. If every field has
// a setting, returns the settings unchanged. Throws Failure (kUsage) for an entry that
// ligerdsl::tuned would reject.
std::vector<std::string> tuned_settings(lib::Context& context, const AnyKernel& kernel,
                                        const std::vector<std::string>& settings);

}  // namespace ligerdsl::cli
