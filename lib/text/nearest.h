// "did you mean": the known name that is closest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

// Returns the candidate with the smallest edit distance, ignoring case, or "" if none is close.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// Returns " (did you mean 'x'?)", or "" if no candidate is close.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ligerdsl::cli
