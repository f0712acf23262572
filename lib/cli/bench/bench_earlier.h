// Results of an earlier run of `ligerdsl bench --json`. `bench --vs` compares with them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

// Returns the conditions that affect times, except the library and its kernels, as members of a
// run's JSON: device, arch, threads, driver, cold.
Json bench_conditions(const runtime::DeviceDescription& about, bool cold);

// Comparison of a case's times with its times in the earlier run.
struct Comparison {
  double ratio;      // median of this run / median of the earlier run
  bool slower;       // slower by more than the tolerance and by more than the noise
  bool significant;  // the spreads do not overlap, or the ratio or its inverse is above kNeverNoise
};

class EarlierBench {
 public:
  // A ratio of medians above this, or below its inverse, is significant whatever the spread.
  static constexpr double kNeverNoise = 1.5;

  // Throws Failure (kUsage) for an unreadable file, or one not written by `bench --json`.
  explicit EarlierBench(const std::string& path);

  bool has(const std::string& kernel, const std::string& title) const {
    return times_.count({kernel, title}) != 0;
  }
  // Throws Failure (kNotComparable) with both values if a condition differs from the file's.
  void require_comparable(const Json& conditions) const;
  // Returns nothing for a case that the earlier run did not measure. A case is slower if both hold:
  // - its median is more than `tolerance` (0.05: 5 %) above the earlier median,
  // - its 20 % quantile is above the earlier 80 % quantile, or the ratio is above kNeverNoise.
  std::optional<Comparison> compare(const Outcome& outcome, double tolerance) const;
  const std::string& about() const { return about_; }  // device, build, date, timing hazards
  size_t size() const { return times_.size(); }

 private:
  struct Time {
    double median_ms, q20_ms, q80_ms;
  };
  void read(const Json& earlier);

  std::string path_;
  std::map<std::pair<std::string, std::string>, Time> times_;  // key: kernel and settings
  std::string about_;
  Json conditions_;
};

}  // namespace ligerdsl::cli
