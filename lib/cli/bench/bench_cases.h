// Cases of `ligerdsl bench` without a named kernel: sets of shapes, and layers of published models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ligerdsl::cli {

struct BenchCase {
  std::string kernel;
  std::vector<std::string> settings;
  bool operator==(const BenchCase&) const = default;
};

struct BenchScale {
  bool cpu = false;
  // Row counts. Every case is measured with each of them, except cases without a row count, such as
  // attention. If empty, the set chooses: models have 8,192 rows on a GPU and 1,024 on a CPU.
  std::vector<int64_t> rows = {};
};

// Returns "standard", "paper", "widths" and the names of the models.
std::vector<std::string> bench_set_names();

// Returns the cases of a set. Throws Failure (kUsage) with the known names for an unknown set.
std::vector<BenchCase> bench_cases(const std::string& set, const BenchScale& scale);

}  // namespace ligerdsl::cli
