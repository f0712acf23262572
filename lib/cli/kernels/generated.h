// Parses the settings of arguments, and generates the values of arguments that have no file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// Interval with both ends included. Integers use low and high, floats real_low and real_high.
struct Interval {
  int64_t low = 0, high = 0;
  double real_low = 0, real_high = 0;
};

// Returns the range of an integer type.
Interval limits_of(DType type);

// Parse a scalar: an integer in the type's range, or a number that the type can hold. Throw Failure
// (kUsage).
int64_t parse_scalar_integer(const std::string& name, DType type, const std::string& text);
double parse_scalar_real(const std::string& name, DType type, const std::string& text);

// Parses the shape "4096x512" of the argument `name`. Throws Failure (kUsage).
std::vector<int64_t> parse_shape(const std::string& name, const std::string& text);

// Parses "LOW..HIGH". Throws Failure (kUsage).
Interval parse_interval(const std::string& name, DType type, const std::string& text);

// Returns n random numbers from `seed`, uniform in the interval. Without an interval, floats are
// normally distributed and integers are 0.
std::string generated_bytes(DType type, int64_t n, uint64_t seed,
                            const std::optional<Interval>& interval);

}  // namespace ligerdsl::cli
