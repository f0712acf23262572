// Parsers for numbers of the command line. The whole text must be one number in the range;
// otherwise they throw Failure (kUsage) with the range.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace ligerdsl::cli {

// Parses decimal digits or a whole number like 1e6. `what` begins the error ("N", "--device"). If
// `or_zero`, 0 is accepted too.
int64_t parse_integer(const std::string& what, const std::string& text, int64_t low, int64_t high,
                      bool or_zero = false);

// Also accepts "inf" and "nan" if there is no range.
double parse_real(const std::string& what, const std::string& text,
                  double low = -std::numeric_limits<double>::infinity(),
                  double high = std::numeric_limits<double>::infinity());

}  // namespace ligerdsl::cli
