// What an earlier `ligerdsl bench --json` measured, to compare with: bench --vs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

// Conditions other than the library and its kernels that times depend on, as members of the JSON of a run.
Json bench_conditions(const runtime::DeviceDescription& about, bool cold);

// A case now compared with the same case then.
struct Comparison {
  double ratio;      // of the medians, now over then
  bool slower;       // by more than the tolerance, and not by noise
  bool significant;  // the spreads do not overlap, or the ratio is beyond kNeverNoise either way
};

class EarlierBench {
 public:
  // Spread excuses no ratio of medians above this, however wide it is.
  static constexpr double kNeverNoise = 1.5;

  // Throws Failure (kUsage) for a file that cannot be read or that is not what `bench --json` writes.
  explicit EarlierBench(const std::string& path);

  bool has(const std::string& kernel, const std::string& title) const { return times_.count({kernel, title}) != 0; }
  // Throws Failure (kNotComparable) with both values where a condition that the file names is another now.
  void require_comparable(const Json& conditions) const;
  // Returns nothing for a case that was not measured then. A case is slower if two things hold:
  // - its median is more than `tolerance` (0.05: 5 %) above the earlier one,
  // - its fast fifth is slower than the slow fifth of then, or the ratio is above kNeverNoise.
  std::optional<Comparison> compare(const Outcome& outcome, double tolerance) const;
  const std::string& about() const { return about_; }  // device, build, date, what distorted it
  size_t size() const { return times_.size(); }

 private:
  struct Time {
    double median_ms, q20_ms, q80_ms;
  };
  void read(const Json& earlier);

  std::string path_;
  std::map<std::pair<std::string, std::string>, Time> times_;  // by kernel and settings
  std::string about_;
  Json conditions_;
};

}  // namespace ligerdsl::cli
