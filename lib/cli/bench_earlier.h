// What an earlier `ligerdsl bench --json` measured, to compare with: bench --vs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/cli/bench_measure.h"
#include "lib/cli/output.h"

namespace ligerdsl::cli {

class EarlierBench {
 public:
  // Throws Failure (kUsage) for a file that cannot be read or that is not what `bench --json` writes.
  explicit EarlierBench(const std::string& path);

  bool has(const std::string& kernel, const std::string& title) const { return times_.count({kernel, title}) != 0; }
  // Its time over that of then; nothing for a case that was not measured then.
  std::optional<double> ratio(const Outcome& outcome) const;
  // More than `tolerance` (0.05: 5 %) slower by the medians, and the fast fifth of now slower than the slow fifth of then.
  bool is_slower(const Outcome& outcome, double tolerance) const;
  const std::string& about() const { return about_; }  // device, build, date, what distorted it
  size_t size() const { return times_.size(); }

 private:
  struct Time {
    double median_ms, q80_ms;
  };
  std::map<std::pair<std::string, std::string>, Time> times_;  // by kernel and settings
  std::string about_;
};

}  // namespace ligerdsl::cli
