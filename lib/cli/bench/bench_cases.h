// What `ligerdsl bench` measures when no kernel is named: sets of shapes and the layers of published models.
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
  // Every case with each of these, but for flat arrays; none: as the set says, for models 8,192 on a GPU and 1,024 on a
  // CPU.
  std::vector<int64_t> rows = {};
};

// "standard", "paper", "widths", and the models.
std::vector<std::string> bench_set_names();

// Throws Failure (kUsage) with the names that exist.
std::vector<BenchCase> bench_cases(const std::string& set, const BenchScale& scale);

}  // namespace ligerdsl::cli
