// Makes the fake CUDA driver (tests/runtime/fake_cuda.cpp) an emulated GPU. Launches run on the
// emulator of ptx/ and complete before the call returns.

#include <memory>

#include "tests/runtime/fake_launch.h"
#include "tests/support/ptx/machine.h"

namespace {

using namespace ligerdsl::test;
namespace cuda = ligerdsl::runtime::cuda;

std::shared_ptr<const ptx::Program> parsed(const std::string& image) {
  static std::mutex mutex;
  static auto* const programs = new std::map<std::string, std::shared_ptr<const ptx::Program>>;
  const std::lock_guard lock(mutex);
  auto& program = (*programs)[image];
  if (!program) program = std::make_shared<const ptx::Program>(ptx::parse(image));
  return program;
}

void run(const FakeLaunch& launch) {
  ptx::Launch parameters;
  parameters.slots.assign(launch.slots, launch.slots + launch.slot_bytes / sizeof(uint64_t));
  parameters.maps = launch.maps;
  parameters.grid = {launch.config.grid_x, launch.config.grid_y, launch.config.grid_z};
  parameters.shared_bytes = launch.config.shared_bytes;
  parameters.cluster[0] = launch.cluster;
  ptx::GlobalMemory memory;
  for (const auto& [begin, bytes] : launch.memory) memory.add(begin, static_cast<int64_t>(bytes));
  ptx::run(*parsed(launch.image), parameters, memory);
}

cuda::Result run_or_report(const FakeLaunch& launch) {
  try {
    run(launch);
    return cuda::success;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulated launch: %s\n", error.what());
    return cuda::error_launch_failed;
  }
}

[[maybe_unused]] const bool registered = (fake_kernel = run_or_report) != nullptr;

}  // namespace
