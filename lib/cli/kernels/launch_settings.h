// num_warps= and what else of a launch may be set beside a loaded kernel's own rule.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <optional>
#include <string>

namespace ligerdsl::cli {

// What was set; the rest is as the launch rule says.
struct LaunchSettings {
  std::optional<int> num_warps, num_ctas, num_stages, max_registers, min_ctas_per_sm, no_alias;

  void apply(Launch* launch) const;
};

// Takes them out of the settings. Throws Failure (kUsage) for a number out of range.
LaunchSettings take_launch_settings(std::map<std::string, std::string>* settings);

}  // namespace ligerdsl::cli
