// Settings that take several values one after the other: --axis H=1024:16384*2.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::cli {

struct Axis {
  std::string name;
  std::vector<std::string> values;
};

// "H=1024:16384*2": 1024, 2048 ... up to 16384; "N=100:500+100"; "dtype=f32,bf16"; lists may hold ranges. Throws Failure
// (kUsage) for what is neither, for a range that is empty or has no end, and for more than 1,000 values.
Axis parse_axis(const std::string& text);

// The settings with each combination of values, the last axis fastest. Throws Failure (kUsage) for an axis that is also
// a setting or stands twice, and for more than 10,000 combinations.
std::vector<std::vector<std::string>> along(const std::vector<std::string>& settings, const std::vector<Axis>& axes);

}  // namespace ligerdsl::cli
