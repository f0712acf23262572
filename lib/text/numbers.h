// Parsers for command-line numbers. They throw Failure (kUsage) with the range unless the whole
// text is one number in the range.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace ligerdsl::cli {

// Parses decimal digits or a whole number like 1e6. `what` begins the error ("N", "--device"). If
// `or_zero`, also accepts 0.
int64_t parse_integer(const std::string& what, const std::string& text, int64_t low, int64_t high,
                      bool or_zero = false);

// Parses a number. Without a range, also accepts "inf" and "nan".
double parse_real(const std::string& what, const std::string& text,
                  double low = -std::numeric_limits<double>::infinity(),
                  double high = std::numeric_limits<double>::infinity());

}  // namespace ligerdsl::cli
