// Runs a parsed kernel on all CTAs of a grid.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/ptx/memory.h"
#include "tests/support/ptx/program.h"
#include "tests/support/ptx/tensor_map.h"

namespace ligerdsl::test::ptx {

struct Launch {
  std::vector<uint64_t> slots;  // 8-byte parameters of the kernel
  std::vector<TensorMap> maps;  // tensor maps, the parameters after the slots
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t shared_bytes = 0;
  uint64_t seed = 1;                        // determines the order of CTAs, warps and copies
  std::array<int64_t, 3> cluster{1, 1, 1};  // in CTAs, if the program has no .reqnctapercluster
  int64_t resident = 4;                     // number of clusters that run at a time
};

// Throws std::runtime_error on a fault. The error names the instruction, CTA and thread.
void run(const Program& program, const Launch& launch, const GlobalMemory& memory);

}  // namespace ligerdsl::test::ptx
