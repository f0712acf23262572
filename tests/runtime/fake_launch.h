// Launches of the fake CUDA driver. The driver computes nothing itself. A library that also
// contains tests/support/emulated_launch.cpp sets `fake_kernel`, which runs the PTX on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/kernel/cuda_api.h"
#include "tests/support/ptx/tensor_map.h"

struct FakeLaunch {
  std::string image;  // text of the loaded module: "CUBIN ", then the PTX
  ligerdsl::runtime::cuda::LaunchConfig config;
  int64_t cluster;
  const uint64_t* slots;
  size_t slot_bytes;
  std::vector<ligerdsl::test::ptx::TensorMap> maps;
  std::map<void*, size_t> memory;  // live allocations and their sizes in bytes
};

extern ligerdsl::runtime::cuda::Result (*fake_kernel)(const FakeLaunch& launch);
