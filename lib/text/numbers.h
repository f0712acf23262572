// Numbers of the command line: the whole text is one number of the range, or a Failure (kUsage) that says what is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace ligerdsl::cli {

// `what` opens the message ("N", "--device"). Decimal digits, or a whole number like 1e6. or_zero: 0 is taken beside the
// range.
int64_t parse_integer(const std::string& what, const std::string& text, int64_t low, int64_t high,
                      bool or_zero = false);

// Also "inf" and "nan", unless a range is given.
double parse_real(const std::string& what, const std::string& text,
                  double low = -std::numeric_limits<double>::infinity(),
                  double high = std::numeric_limits<double>::infinity());

}  // namespace ligerdsl::cli
