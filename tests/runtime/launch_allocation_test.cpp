// Tests that launches allocate no memory: counts calls to operator new.
#include <functional>
#include <optional>

#include "allocations.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

TEST(LaunchAllocation, CpuLaunchAllocatesNothing) {
  test::TempFolder folder;
  auto device = test::fake_cpu(folder.path(), 3);
  auto kernel = device->load("program", {});
  std::vector<int64_t> out(100000);
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out.data()), out.size()};
  const int64_t before = test::allocations();
  for (int64_t programs : {1, 7, 1000, 100000})
    for (int i = 0; i < 20; ++i) kernel->launch(slots, {programs, 1, 1}, nullptr);
  EXPECT_EQ(test::allocations() - before, 0);
}

TEST(LaunchAllocation, GpuLaunchAllocatesNothing) {
  test::fake_cuda().reset();
  test::TempFolder folder;
  auto device = test::fake_gpu(folder.path());
  auto kernel = device->load("program", device->base_options());
  const uint64_t slots[2] = {};
  kernel->launch(slots, {3, 1, 1}, nullptr);  // now the fake driver has a count per function
  const int64_t calls = test::fake_cuda().call_count(), before = test::allocations();
  kernel->launch(slots, {3, 1, 1}, nullptr);
  EXPECT_EQ(test::allocations() - before, 0);
  EXPECT_EQ(test::fake_cuda().call_count() - calls, 4);  // get current, push, launch, pop
}

TEST(LaunchAllocation, TensorMapsAllocateNothing) {
  test::fake_cuda().reset();
  test::TempFolder folder;
  auto device = test::fake_gpu(folder.path());
  auto kernel = device->load("mapped", device->base_options());
  const uint64_t slots[6] = {7, 0x1000, 100, 72, 80, 1};
  kernel->launch(slots, {3, 1, 1}, nullptr);  // now the fake driver has a count per function
  const int64_t calls = test::fake_cuda().call_count(), before = test::allocations();
  kernel->launch(slots, {3, 1, 1}, nullptr);
  EXPECT_EQ(test::allocations() - before, 0);
  EXPECT_EQ(test::fake_cuda().call_count() - calls, 5);  // also encodes the map
}

// Tests call this in separate processes, because an exception in a destructor would end the
// process.
void release(const std::function<std::shared_ptr<Device>(const std::string&)>& make,
             bool without_memory) {
  const test::TempFolder folder;
  auto device = make(folder.path());
  auto kernel = device->load("program", device->base_options());
  void* memory = device->alloc(1000);
  if (without_memory && !device->is_cpu()) test::fake_cuda().fail_call(1, 700);
  std::optional<test::NoMemory> here;
  if (without_memory) here.emplace();
  device->free(memory);
  kernel.reset();
  device.reset();
}

void release_without_memory(
    const std::function<std::shared_ptr<Device>(const std::string&)>& make) {
  release(make, false);  // now the fake driver has a count per function
  release(make, true);
}

TEST(LaunchAllocationChild, DISABLED_ReleaseOnCpu) {
  release_without_memory([](const std::string& folder) { return test::fake_cpu(folder); });
}

TEST(LaunchAllocationChild, DISABLED_ReleaseOnGpu) {
  test::fake_cuda().reset();
  release_without_memory(test::fake_gpu);
}

TEST(LaunchAllocation, ReleaseSucceedsWithoutMemory) {
  for (const char* name : {"LaunchAllocationChild.DISABLED_ReleaseOnCpu",
                           "LaunchAllocationChild.DISABLED_ReleaseOnGpu"})
    EXPECT_TRUE(test::passes_with(name, {"LIGERDSL_LOG=debug"})) << name;
}

}  // namespace
}  // namespace ligerdsl::runtime
