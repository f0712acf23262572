// "did you mean": the name that a mistyped one is closest to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

// The candidate with the fewest letters inserted, left out, replaced or swapped, whatever their case; "" when none is
// close.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// " (did you mean 'x'?)", or "" when nothing is close.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ligerdsl::cli
