// After a foreign kernel has failed, every call returns STICKY_DEVICE_ERROR with the possible
// causes, and everything can still be destroyed. The process cannot use a real GPU afterwards, so
// each kernel fails in a child that this program starts. fake_gpu_test.cpp tests the same on the
// fake GPU.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support.h"

extern char** environ;

namespace ligerdsl::test::sticky_test {
namespace {

// A user's kernels that fail: by a trap, a write to an unmapped address, or a misaligned access.
constexpr const char* kPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry traps()
{
  trap;
  ret;
}
.visible .entry writes_to_nowhere()
{
  .reg .b64 %where;
  .reg .b32 %value;
  mov.u64 %where, 0x1000;
  mov.u32 %value, 1;
  st.global.u32 [%where], %value;
  ret;
}
.visible .entry misaligned()
{
  .reg .b64 %where;
  .reg .b32 %value;
  mov.u64 %where, 0x1001;
  ld.global.u32 %value, [%where];
  st.global.u32 [%where], %value;
  ret;
}
)";

template <class F>
F* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

// Runs the kernel of this name to its end, and returns the driver's error code.
int run_user_kernel(const char* name) {
  void *primary = nullptr, *module = nullptr, *function = nullptr;
  EXPECT_EQ(driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&primary, 0), 0);
  EXPECT_EQ(driver<int(void*)>("cuCtxSetCurrent")(primary), 0);
  EXPECT_EQ(driver<int(void**, const void*)>("cuModuleLoadData")(&module, kPtx), 0);
  EXPECT_EQ(driver<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, module, name),
            0);
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
  EXPECT_EQ(
      driver<Launch>("cuLaunchKernel")(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
      0);
  return driver<int()>("cuCtxSynchronize")();
}

void expect_sticky(ligerdsl_status_t status) {
  expect_failure(status, LIGERDSL_STICKY_DEVICE_ERROR,
                 {"ran earlier", "other code in the process", "restart"});
}

// The part that runs in a child process.
void fail_and_go_on(const char* kernel) {
  auto context = std::make_unique<Context>(Context::cuda(0));
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  auto plan = std::make_unique<VectorAddPlan>(*context, desc);
  auto a = std::make_unique<Buffer>(*context, 4096), out = std::make_unique<Buffer>(*context, 4096);
  const Tensor ta(a->data(), context->device(), LIGERDSL_F32, {1024}),
      tout(out->data(), context->device(), LIGERDSL_F32, {1024});
  VectorAddArgs args = vector_add_args();
  args.a = args.b = ta;
  args.out = tout;
  (*plan)(args);
  context->synchronize();

  ASSERT_NE(run_user_kernel(kernel), 0) << "the user's kernel did not fail";
  expect_sticky(ligerdsl_vector_add_execute(plan->get(), &args, nullptr, 0, nullptr));
  expect_sticky(ligerdsl_vector_add(context->get(), &desc, &args, nullptr));
  expect_sticky(ligerdsl_context_check(context->get(), nullptr));
  expect_sticky(ligerdsl_stream_sync(context->get(), nullptr));
  void* memory = nullptr;
  expect_sticky(ligerdsl_buffer_alloc(context->get(), 4096, &memory));
  // Contexts, buffers and plans are destroyed in any order, without messages about memory that
  // cannot be freed.
  context.reset();
  out.reset();
  plan.reset();
  a.reset();
}

class StickyChild : public testing::Test {};
TEST_F(StickyChild, DISABLED_traps) {
  fail_and_go_on("traps");
}
TEST_F(StickyChild, DISABLED_writes_to_nowhere) {
  fail_and_go_on("writes_to_nowhere");
}
TEST_F(StickyChild, DISABLED_misaligned) {
  fail_and_go_on("misaligned");
}

// Returns the child's status, or -1 if it had to be killed.
int wait_for(pid_t child, std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return status;
}

class Sticky : public testing::TestWithParam<const char*> {
  void SetUp() override {
    if (!driver<int(unsigned)>("cuInit") || driver<int(unsigned)>("cuInit")(0) != 0)
      GTEST_SKIP() << "no CUDA driver, or no GPU";
  }
};

TEST_P(Sticky, IsReportedAndEverythingIsDestroyed) {
  const std::string filter = std::string("--gtest_filter=StickyChild.DISABLED_") + GetParam();
  const char* arguments[] = {"/proc/self/exe", "--gtest_also_run_disabled_tests", filter.c_str(),
                             nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments),
                        environ),
            0);
  const int status = wait_for(child, std::chrono::seconds(120));
  ASSERT_NE(status, -1) << "the process hung";
  EXPECT_TRUE(WIFEXITED(status)) << "the process died of signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see the child's output above";
}

INSTANTIATE_TEST_SUITE_P(Kernels, Sticky,
                         testing::Values("traps", "writes_to_nowhere", "misaligned"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ligerdsl::test::sticky_test
