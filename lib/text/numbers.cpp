#include "lib/text/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lib/text/clipped.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

template <class T>
bool whole_text(const std::string& text, T* value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

bool read_integer(const std::string& text, int64_t* value) {
  if (whole_text(text, value)) return true;
  constexpr double kExact = int64_t{1} << 53;
  double number = 0;
  if (!whole_text(text, &number) || !(std::fabs(number) <= kExact) || number != std::trunc(number))
    return false;
  *value = static_cast<int64_t>(number);
  return true;
}

}  // namespace

int64_t parse_integer(const std::string& what, const std::string& text, int64_t low, int64_t high,
                      bool or_zero) {
  int64_t value = 0;
  if (!read_integer(text, &value) || ((value < low || value > high) && !(or_zero && value == 0)))
    throw Failure(kUsage, fmt::format("{}: expected {}an integer from {} to {}, got '{}'", what,
                                      or_zero ? "0 or " : "", low, high, tune::clipped(text)));
  return value;
}

double parse_real(const std::string& what, const std::string& text, double low, double high) {
  double value = 0;
  const bool bounded = std::isfinite(low) || std::isfinite(high);
  const bool good = whole_text(text, &value) && (!bounded || (value >= low && value <= high));
  if (good) return value;
  throw Failure(
      kUsage, bounded ? fmt::format("{}: expected a number from {} to {}, got '{}'", what, low,
                                    high, tune::clipped(text))
                      : fmt::format("{}: expected a number, got '{}'", what, tune::clipped(text)));
}

}  // namespace ligerdsl::cli
