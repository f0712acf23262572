// What `ligerdsl bench` measures when no kernel is named: sets of shapes and the layers of published models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ligerdsl::cli {

struct BenchCase {
  std::string kernel;
  std::vector<std::string> settings;
};

struct BenchScale {
  bool cpu = false;
  int64_t rows = 0;  // of every case; 0: as the set says, for models 8,192 on a GPU and 1,024 on a CPU
};

// "standard", "paper", "widths", and the models.
std::vector<std::string> bench_set_names();

// Throws Failure (kUsage) with the names that exist.
std::vector<BenchCase> bench_cases(const std::string& set, const BenchScale& scale);

}  // namespace ligerdsl::cli
