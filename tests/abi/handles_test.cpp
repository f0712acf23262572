// NULLs, dead handles, versions, memory and streams of a CPU context.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <regex>
#include <thread>

#include "support.h"

namespace ligerdsl::test::handles_test {
namespace {

TEST(Handles, NamesAndVersion) {
  EXPECT_STREQ(ligerdsl_status_name(LIGERDSL_SUCCESS), "SUCCESS");
  EXPECT_STREQ(ligerdsl_status_name(LIGERDSL_DEAD_HANDLE), "DEAD_HANDLE");
  EXPECT_STREQ(ligerdsl_status_name(123456), "UNKNOWN_STATUS");
  EXPECT_EQ(ligerdsl_version(), static_cast<uint32_t>(LIGERDSL_VERSION));
  EXPECT_TRUE(std::regex_match(
      ligerdsl_build_info(),
      std::regex("[0-9.]+-[0-9a-f]{16} commit ([0-9a-f]{40,64} (clean|dirty)|unknown)")))
      << ligerdsl_build_info();
}

TEST(Handles, NullPointers) {
  const Context context = Context::cpu(1);
  const VectorAddDesc desc = vector_add_desc();
  const VectorAddArgs args = vector_add_args();
  const ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  size_t count = 0;
  const int32_t grid[3] = {1, 1, 1};
  ligerdsl_context_t made = nullptr;
  ligerdsl_plan_t plan = nullptr;
  ligerdsl_kernel_t kernel = nullptr;
  ligerdsl_fault_t fault;
  const struct {
    ligerdsl_status_t status;
    const char* argument;
  } rows[] = {
      {ligerdsl_context_create(nullptr, &made), "`config`"},
      {ligerdsl_context_create(&config, nullptr), "`context`"},
      {ligerdsl_context_check(nullptr, nullptr), "`context`"},
      {ligerdsl_context_poll(nullptr, &fault, sizeof fault), "`context`"},
      {ligerdsl_vector_add_plan(nullptr, &desc, &plan), "`context`"},
      {ligerdsl_vector_add_plan(context.get(), nullptr, &plan), "`desc`"},
      {ligerdsl_vector_add_plan(context.get(), &desc, nullptr), "`plan`"},
      {ligerdsl_vector_add_execute(nullptr, &args, nullptr, 0, nullptr), "`plan`"},
      {ligerdsl_vector_add(nullptr, &desc, &args, nullptr), "`context`"},
      {ligerdsl_vector_add(context.get(), nullptr, &args, nullptr), "`desc`"},
      {ligerdsl_vector_add(context.get(), &desc, nullptr, nullptr), "`args`"},
      {ligerdsl_buffer_alloc(context.get(), 16, nullptr), "`data`"},
      {ligerdsl_buffer_copy(context.get(), nullptr, &desc, 4, nullptr), "`to`"},
      {ligerdsl_buffer_copy(context.get(), &plan, nullptr, 4, nullptr), "`from`"},
      {ligerdsl_buffer_fill(context.get(), nullptr, 0, 4, nullptr), "`data`"},
      {ligerdsl_stream_create(context.get(), nullptr), "`stream`"},
      {ligerdsl_kernel_create(context.get(), nullptr, 0, nullptr, &kernel), "`program`"},
      {ligerdsl_kernel_create(context.get(), "x", 1, nullptr, nullptr), "`kernel`"},
      {ligerdsl_kernel_launch(nullptr, nullptr, 0, grid, nullptr), "`kernel`"},
      {ligerdsl_kernel_parameters(nullptr, nullptr, 0, &count), "`kernel`"},
  };
  for (const auto& row : rows) EXPECT_EQ(row.status, LIGERDSL_INVALID_NULL_POINTER) << row.argument;
  expect_failure(ligerdsl_context_check(nullptr, nullptr), LIGERDSL_INVALID_NULL_POINTER,
                 {"ligerdsl_context_check", "`context`", "NULL"});
}

TEST(Handles, DestroyingNothingIsFine) {
  ligerdsl_context_destroy(nullptr);
  ligerdsl_plan_destroy(nullptr);
  ligerdsl_kernel_destroy(nullptr);
}

TEST(Handles, DeadContext) {
  const ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  ligerdsl_context_t context = nullptr;
  ASSERT_EQ(ligerdsl_context_create(&config, &context), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  ligerdsl_context_destroy(context);
  expect_failure(ligerdsl_context_check(context, nullptr), LIGERDSL_DEAD_HANDLE,
                 {"`context`", "destroyed"});
  ligerdsl_context_destroy(context);  // a second destruction has no effect

  // The next context may use the same slot, but the old handle stays dead.
  ligerdsl_context_t next = nullptr;
  ASSERT_EQ(ligerdsl_context_create(&config, &next), LIGERDSL_SUCCESS);
  EXPECT_EQ(ligerdsl_context_check(context, nullptr), LIGERDSL_DEAD_HANDLE);
  EXPECT_EQ(ligerdsl_context_check(next, nullptr), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  ligerdsl_context_destroy(next);
}

TEST(Handles, ForeignPointers) {
  alignas(64) static char somewhere[64];
  auto* context = reinterpret_cast<ligerdsl_context_t>(somewhere);
  expect_failure(ligerdsl_context_check(context, nullptr), LIGERDSL_DEAD_HANDLE,
                 {"did not make it"});
  ligerdsl_context_destroy(context);
  const Context real = Context::cpu(1);
  const VectorAddArgs args = vector_add_args();
  auto* plan = reinterpret_cast<ligerdsl_plan_t>(real.get());  // a live handle of another kind
  EXPECT_EQ(ligerdsl_vector_add_execute(plan, &args, nullptr, 0, nullptr), LIGERDSL_DEAD_HANDLE);
  EXPECT_EQ(ligerdsl_plan_workspace_bytes_for(plan, 1), SIZE_MAX);
}

TEST(Handles, LastErrorBelongsToItsThread) {
  EXPECT_NE(ligerdsl_context_check(nullptr, nullptr), LIGERDSL_SUCCESS);
  const std::string mine = ligerdsl_last_error();
  std::string fresh = "unset";
  std::thread([&] { fresh = ligerdsl_last_error(); }).join();
  EXPECT_EQ(fresh, "");
  EXPECT_EQ(mine, ligerdsl_last_error());
}

TEST(Handles, ManyThreadsMakeAndDestroy) {
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
        config.num_threads = 1;
        ligerdsl_context_t context = nullptr;
        if (ligerdsl_context_create(&config, &context) || ligerdsl_context_check(context, nullptr))
          ++failures;
        ligerdsl_context_destroy(context);
        if (ligerdsl_context_check(context, nullptr) != LIGERDSL_DEAD_HANDLE) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

// A context whose memory allocations first call `in_callback`, which each test sets.
struct Host {
  std::function<void()> in_callback;
  ligerdsl_context_t context = nullptr;

  Host() {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.num_threads = 1;
    config.user = this;
    config.host_alloc = [](void* user, size_t bytes, size_t align) {
      if (const auto& work = static_cast<Host*>(user)->in_callback) work();
      return aligned_alloc(align, (bytes + align - 1) / align * align);
    };
    config.host_free = [](void*, void* pointer) { free(pointer); };
    EXPECT_EQ(ligerdsl_context_create(&config, &context), LIGERDSL_SUCCESS)
        << ligerdsl_last_error();
  }
};

TEST(Handles, DestroyingWaitsForCallsOfOtherThreads) {
  Host host;
  std::atomic<bool> inside{false}, go_on{false}, destroyed{false};
  host.in_callback = [&] {
    inside = true;
    while (!go_on) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(destroyed);
  };
  std::thread calling([&] {
    void* data = nullptr;
    EXPECT_EQ(ligerdsl_buffer_alloc(host.context, 64, &data), LIGERDSL_SUCCESS)
        << ligerdsl_last_error();
    free(data);
  });
  while (!inside) std::this_thread::yield();
  std::thread destroying([&] {
    ligerdsl_context_destroy(host.context);
    destroyed = true;
  });
  // The handle is dead once destruction begins, although the call is still running.
  while (ligerdsl_context_check(host.context, nullptr) != LIGERDSL_DEAD_HANDLE)
    std::this_thread::yield();
  ligerdsl_context_destroy(host.context);  // a second destruction does not wait
  EXPECT_FALSE(destroyed);
  go_on = true;
  calling.join();
  destroying.join();
}

// This happens when a callback calls exit() and the context has static lifetime.
TEST(Handles, DestroyingInOwnCallbackDoesNotDeadlock) {
  static Host* const host = new Host;  // never destroyed, nor is its context
  host->in_callback = [&] { ligerdsl_context_destroy(host->context); };
  void* data = nullptr;
  EXPECT_EQ(ligerdsl_buffer_alloc(host->context, 64, &data), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  free(data);
  EXPECT_EQ(ligerdsl_context_check(host->context, nullptr), LIGERDSL_DEAD_HANDLE);
}

TEST(Handles, CpuContextHasBuffersAndStreams) {
  const Context context = Context::cpu(1);
  const Buffer buffer(context, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  context.fill(buffer.data(), 7, 1000);
  char text[4] = {};
  context.copy(text, static_cast<char*>(buffer.data()) + 996, 4);
  EXPECT_EQ(std::string(text, 4), std::string(4, 7));
  ligerdsl_stream_t stream = nullptr;
  EXPECT_EQ(ligerdsl_stream_create(context.get(), &stream), LIGERDSL_SUCCESS);
  EXPECT_EQ(ligerdsl_stream_sync(context.get(), stream), LIGERDSL_SUCCESS);
  EXPECT_EQ(ligerdsl_stream_destroy(context.get(), stream), LIGERDSL_SUCCESS);
}

TEST(Handles, GarbageProgram) {
  const Context context = Context::cpu(1);
  ligerdsl_kernel_t kernel = nullptr;
  expect_failure(ligerdsl_kernel_create(context.get(), "not a program", 13, nullptr, &kernel),
                 LIGERDSL_INVALID_PROGRAM, {"`program`"});
  EXPECT_EQ(kernel, nullptr);
}

}  // namespace
}  // namespace ligerdsl::test::handles_test
