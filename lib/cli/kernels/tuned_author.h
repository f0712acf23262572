// A kernel of --load as a program has it that asks ligerdsl::tuned (launch.hpp) for these settings.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/kernels/author_call.h"
#include "lib/src/context.h"

namespace ligerdsl::cli {

struct TunedAuthor {
  std::string options;  // how tables name the call
  // What a table says of fields that the settings leave open. An entry that ligerdsl::tuned throws at was passed over.
  lib::ConfigSource source;
};

TunedAuthor tuned_author(lib::Context& context, const AnyKernel& kernel, const std::vector<std::string>& settings);

// The settings with what a table says. Those that choose every field themselves stay as they are. Throws Failure
// (kUsage) for an entry that ligerdsl::tuned throws at.
std::vector<std::string> tuned_settings(lib::Context& context, const AnyKernel& kernel,
                                        const std::vector<std::string>& settings);

}  // namespace ligerdsl::cli
