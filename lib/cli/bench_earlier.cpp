#include "lib/cli/bench_earlier.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "lib/tune/strict_json.h"

namespace ligerdsl::cli {

EarlierBench::EarlierBench(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(kUsage, fmt::format("--vs: cannot read {}: {}", path, std::strerror(errno)));
  try {
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad()) throw std::runtime_error("it cannot be read");
    const Json earlier = tune::parse_strict(text);
    for (const Json& result : earlier.at("results")) {
      for (const char* name : {"median_ms", "q80_ms"}) {
        if (!tune::is_positive(result.at(name)))
          throw std::runtime_error(fmt::format("\"{}\" is no number above 0", name));
      }
      times_[{result.at("kernel"), result.at("settings")}] = {result.at("median_ms"), result.at("q80_ms")};
    }
    about_ = fmt::format("{}, build {}, {}", earlier.at("device").get<std::string>(),
                         earlier.at("build").get<std::string>(), earlier.at("date").get<std::string>());
    for (const std::string name : earlier.value("distorted_by", Json::array())) about_ += ", under " + name;
  } catch (const std::exception& error) {
    throw Failure(kUsage,
                  fmt::format("--vs: expected in {} what `ligerdsl bench --json` writes: {}", path, error.what()));
  }
}

std::optional<double> EarlierBench::ratio(const Outcome& outcome) const {
  const auto then = times_.find({outcome.kernel, outcome.title});
  if (then == times_.end()) return std::nullopt;
  return outcome.time.median_ms / then->second.median_ms;
}

bool EarlierBench::is_slower(const Outcome& outcome, double tolerance) const {
  const auto then = times_.find({outcome.kernel, outcome.title});
  return then != times_.end() && outcome.time.median_ms > (1 + tolerance) * then->second.median_ms &&
         outcome.time.q20_ms > then->second.q80_ms;
}

}  // namespace ligerdsl::cli
