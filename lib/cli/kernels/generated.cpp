#include "lib/cli/kernels/generated.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "interpreter/convert.h"
#include "lib/instance/npy.h"
#include "lib/instance/settings.h"
#include "lib/text/clipped.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

std::string typed(const std::string& name, DType type) {
  return fmt::format("{} ({})", name, ligerdsl::name(type));
}

void append_integer(std::string* bytes, DType type, int64_t value) {
  const size_t before = bytes->size();
  bytes->resize(before + static_cast<size_t>(size_of(type)));
  interpreter::write_integer(type, bytes->data() + before, value);
}

}  // namespace

Interval limits_of(DType type) {
  return {.low = least_of(type), .high = most_of(type)};
}

int64_t parse_scalar_integer(const std::string& name, DType type, const std::string& text) {
  const Interval limits = limits_of(type);
  return parse_integer(typed(name, type), text, limits.low, limits.high);
}

double parse_scalar_real(const std::string& name, DType type, const std::string& text) {
  const double value = parse_real(typed(name, type), text);
  const double nearest =
      is_fp8(type) ? interpreter::saturate(type, value) : interpreter::round_to(type, value);
  const bool infinite = std::isinf(value) && type != DType::f8e4m3;
  if (!infinite &&
      (std::isinf(nearest) || (is_fp8(type) && !std::isnan(value) && nearest != value)))
    throw Failure(kUsage, fmt::format("{0}: expected a number from -{1:g} to {1:g}, got '{2}'",
                                      typed(name, type), largest_of(type), text));
  return value;
}

std::vector<int64_t> parse_shape(const std::string& name, const std::string& text) {
  std::vector<int64_t> shape;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('x', at), text.size());
    const std::string size = text.substr(at, end - at);
    try {
      shape.push_back(parse_integer(name, size, 0, kMaxSize));
    } catch (const Failure&) {
      throw Failure(kUsage, fmt::format("{}={}: expected a shape like 4096x512 or the name of "
                                        "another view; got '{}', not an integer from 0 to {}",
                                        name, text, tune::clipped(size), kMaxSize));
    }
    at = end + 1;
  }
  return shape;
}

Interval parse_interval(const std::string& name, DType type, const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos || dots == 0)
    throw Failure(
        kUsage,
        fmt::format("{}: expected LOW..HIGH after the colon, like 0..31999, got '{}'", name, text));
  const std::string low = text.substr(0, dots), high = text.substr(dots + 2);
  Interval interval;
  if (is_integer(type)) {
    interval.low = parse_scalar_integer(name, type, low),
    interval.high = parse_scalar_integer(name, type, high);
  } else {
    interval.real_low = parse_scalar_real(name, type, low),
    interval.real_high = parse_scalar_real(name, type, high);
  }
  if (interval.low <= interval.high && interval.real_low <= interval.real_high) return interval;
  throw Failure(kUsage, fmt::format("{}: expected LOW <= HIGH, got {}..{}", name, low, high));
}

std::string generated_bytes(DType type, int64_t n, uint64_t seed,
                            const std::optional<Interval>& interval) {
  if (is_integer(type) && !interval)
    return std::string(static_cast<size_t>(n * size_of(type)), '\0');
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int64_t> integers(interval ? interval->low : 0,
                                                  interval ? interval->high : 0);
  std::uniform_real_distribution<double> reals(interval ? interval->real_low : 0,
                                               interval ? interval->real_high : 1);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(n * size_of(type)));
  for (int64_t i = 0; i < n; ++i) {
    if (is_integer(type))
      append_integer(&bytes, type, integers(random));
    else
      append(&bytes, type, interval ? reals(random) : normal(random));
  }
  return bytes;
}

}  // namespace ligerdsl::cli
