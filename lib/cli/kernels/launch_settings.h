// num_warps= and other launch settings that override a loaded kernel's launch rule.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <optional>
#include <string>

namespace ligerdsl::cli {

// Values that settings set. The launch rule sets the others.
struct LaunchSettings {
  std::optional<int> num_warps, num_ctas, num_stages, max_registers, min_ctas_per_sm, no_alias;

  void apply(Launch* launch) const;
};

// Removes the launch settings from `settings` and returns them. Throws Failure (kUsage) for a
// number out of range.
LaunchSettings take_launch_settings(std::map<std::string, std::string>* settings);

}  // namespace ligerdsl::cli
