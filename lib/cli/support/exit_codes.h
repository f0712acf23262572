// Exit codes of the command and their meanings, as --help and the manual list them.
#pragma once

#include <utility>
#include <vector>

#include "lib/text/output.h"

namespace ligerdsl::cli {

// Adds to ExitCode: `bench --vs` got a run on another device, driver or number of threads.
inline constexpr int kNotComparable = 5;

const std::vector<std::pair<int, const char*>>& exit_codes();

}  // namespace ligerdsl::cli
