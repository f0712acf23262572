// Every exit code of the command with what it means: --help and the manual have this list.
#pragma once

#include <utility>
#include <vector>

#include "lib/text/output.h"

namespace ligerdsl::cli {

// An addition to ExitCode: `bench --vs` was given a run on another device, driver or number of threads.
inline constexpr int kNotComparable = 5;

const std::vector<std::pair<int, const char*>>& exit_codes();

}  // namespace ligerdsl::cli
