// Settings that take several values: --axis H=1024:16384*2.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::cli {

struct Axis {
  std::string name;
  std::vector<std::string> values;
};

// Parses "H=1024:16384*2" (1024, 2048 ... 16384), "N=100:500+100" or "dtype=f32,bf16"; lists may
// contain ranges. Throws Failure (kUsage) for other text, an empty or endless range, or more than
// 1,000 values.
Axis parse_axis(const std::string& text);

// Returns one list of settings per combination of values; the last axis varies fastest. Throws
// Failure (kUsage) for a duplicate axis, an axis that is also a setting, or more than 10,000
// combinations.
std::vector<std::vector<std::string>> along(const std::vector<std::string>& settings,
                                            const std::vector<Axis>& axes);

}  // namespace ligerdsl::cli
