// Runs a parsed kernel on a grid.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/ptx/memory.h"
#include "tests/support/ptx/program.h"
#include "tests/support/ptx/tensor_map.h"

namespace ligerdsl::test::ptx {

struct Launch {
  std::vector<uint64_t> slots;  // 8-byte kernel parameters
  std::vector<TensorMap> maps;  // parameters behind them
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t shared_bytes = 0;
  uint64_t seed = 1;                        // of the order in which CTAs, warps and copies come
  std::array<int64_t, 3> cluster{1, 1, 1};  // CTAs; the program's own, where it says one
  int64_t resident = 4;                     // clusters that run at a time
};

// Throws std::runtime_error naming the instruction, the CTA and the thread that did what it must not.
void run(const Program& program, const Launch& launch, const GlobalMemory& memory);

}  // namespace ligerdsl::test::ptx
