// Launching takes no memory: what is asked of operator new is counted.
#include "allocations.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

TEST(LaunchAllocation, CpuLaunchTakesNoMemory) {
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

TEST(LaunchAllocation, GpuLaunchTakesNoMemory) {
  test::fake_cuda().reset();
  test::TempFolder folder;
  auto device = test::fake_gpu(folder.path());
  auto kernel = device->load("program", device->base_options());
  const uint64_t slots[2] = {};
  kernel->launch(slots, {3, 1, 1}, nullptr);  // the fake driver has seen every call now
  const int64_t calls = test::fake_cuda().call_count(), before = test::allocations();
  kernel->launch(slots, {3, 1, 1}, nullptr);
  EXPECT_EQ(test::allocations() - before, 0);
  EXPECT_EQ(test::fake_cuda().call_count() - calls, 4);  // current context, push, launch, pop
}

}  // namespace
}  // namespace ligerdsl::runtime
