// Every exit code of the command with what it means: --help and the manual have this list.
#pragma once

#include <utility>
#include <vector>

#include "lib/cli/output.h"

namespace ligerdsl::cli {

// Beside those of ExitCode: `bench --vs` with a run whose times say nothing about this one.
inline constexpr int kNotComparable = 5;

const std::vector<std::pair<int, const char*>>& exit_codes();

}  // namespace ligerdsl::cli
