// The command's exit codes and their meanings, for --help and the manual.
#pragma once

#include <utility>
#include <vector>

#include "lib/text/output.h"

namespace ligerdsl::cli {

// Exit code in addition to ExitCode: `bench --vs` got a run with another device, architecture,
// driver, number of threads or cache state.
inline constexpr int kNotComparable = 5;

const std::vector<std::pair<int, const char*>>& exit_codes();

}  // namespace ligerdsl::cli
