#include "lib/cli/bench/bench_earlier.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "lib/cli/support/exit_codes.h"
#include "lib/tune/strict_json.h"

namespace ligerdsl::cli {

namespace {

constexpr const char* kConditions[] = {"device", "arch", "threads", "driver", "cold"};

std::string text_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "cold caches" : "warm caches";
  return tune::shown(value);
}

// Reads a file in parts, because the file may be a pipe, which has no size.
std::string text_of_file(const std::string& path) {
  constexpr size_t kMostBytes = size_t{256} << 20, kPart = size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string text, part(kPart, '\0');
  while (file.read(part.data(), kPart) || file.gcount() > 0) {
    text.append(part, 0, static_cast<size_t>(file.gcount()));
    if (text.size() > kMostBytes)
      throw Failure(kUsage, fmt::format("--vs: expected a file of at most {}, got a larger one: {}",
                                        format_bytes(kMostBytes), path));
  }
  if (!file.eof())
    throw Failure(kUsage, fmt::format("--vs: cannot read {}: {}", path, std::strerror(errno)));
  return text;
}

}  // namespace

Json bench_conditions(const runtime::DeviceDescription& about, bool cold) {
  return {{"device", about.name},
          {"arch", about.arch},
          {"threads", about.threads},
          {"driver", about.driver_version},
          {"cold", cold}};
}

EarlierBench::EarlierBench(const std::string& path) : path_(path) {
  const std::string text = text_of_file(path);
  try {
    read(tune::parse_strict(text));
  } catch (const tune::JsonError& error) {
    throw Failure(
        kUsage,
        fmt::format(
            "--vs: \"{}\" is not a file that `ligerdsl bench --json` writes: {}; measure again",
            tune::clipped(path, 200), error.what()));
  }
}

void EarlierBench::read(const Json& earlier) {
  const tune::Members run(earlier);
  for (const Json& result :
       run.get("results", "a list", [](const Json& is) { return is.is_array(); })) {
    const tune::Members one(result);
    const double median = one.positive("median_ms"), slow = one.positive("q80_ms");
    const double fast = one.has("q20_ms") ? one.positive("q20_ms") : median;
    times_[{one.text("kernel"), one.text("settings")}] = {median, fast, slow};
  }
  about_ = fmt::format("{}, build {}, {}", run.text("device"), run.text("build"), run.text("date"));
  if (run.has("distorted_by"))
    for (const Json& name : run.get("distorted_by", "a list of strings", tune::are_strings))
      about_ += ", under " + name.get<std::string>();
  const auto is_scalar = [](const Json& is) {
    return is.is_string() || is.is_boolean() || is.is_number_integer();
  };
  for (const char* name : kConditions)
    if (run.has(name))
      conditions_[name] = run.get(name, "a string, an integer, true or false", is_scalar);
}

void EarlierBench::require_comparable(const Json& conditions) const {
  std::vector<std::string> differences;
  for (const char* name : kConditions) {
    if (conditions_.contains(name) && conditions_[name] != conditions.at(name))
      differences.push_back(fmt::format("{} then {}, now {}", name, text_of(conditions_[name]),
                                        text_of(conditions.at(name))));
  }
  if (differences.empty()) return;
  throw Failure(
      kNotComparable,
      fmt::format(
          "--vs: times of \"{}\" cannot be compared with this run: {}; measure both under the same "
          "conditions",
          tune::clipped(path_, 200), fmt::join(differences, "; ")));
}

std::optional<Comparison> EarlierBench::compare(const Outcome& outcome, double tolerance) const {
  const auto then = times_.find({outcome.kernel, outcome.title});
  if (then == times_.end()) return std::nullopt;
  const double ratio = outcome.time.median_ms / then->second.median_ms;
  const bool disjoint =
      outcome.time.q20_ms > then->second.q80_ms || outcome.time.q80_ms < then->second.q20_ms;
  const bool significant = disjoint || ratio > kNeverNoise || ratio < 1 / kNeverNoise;
  return Comparison{ratio, significant && ratio > 1 + tolerance, significant};
}

}  // namespace ligerdsl::cli
