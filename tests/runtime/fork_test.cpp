// Tests a child forked by a process with several threads. Everything must work in it, except
// operations that another thread of the parent had begun.
#include "runtime/system/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/device/thread_pool.h"
#include "runtime/environment/log.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::passes_in_child;

// Runs `step` in a loop on another thread.
class Meanwhile {
 public:
  template <class Step>
  explicit Meanwhile(Step step)
      : thread_([this, step] {
          while (!stop_) {
            step();
            started_ = true;
          }
        }) {
    while (!started_) std::this_thread::yield();
  }
  ~Meanwhile() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> started_{false}, stop_{false};
  std::thread thread_;
};

TEST(Fork, EachProcessHasItsGeneration) {
  const uint32_t here = fork_generation();
  EXPECT_TRUE(passes_in_child([&] { return fork_generation() != here; }));
  EXPECT_EQ(fork_generation(), here);
}

TEST(Fork, MutexIsFreeAndItsDataConsistentInAChild) {
  ForkMutex mutex;
  int64_t one = 0, two = 0;
  const Meanwhile changing([&] {
    const std::lock_guard lock(mutex);
    ++one;
    for (int i = 0; i < 1000; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    ++two;
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(passes_in_child([&] {
      const std::lock_guard lock(mutex);
      return one == two;
    }));
}

TEST(Fork, ChildCreatesItsOwnPerProcessValue) {
  PerProcess<int> number(std::make_shared<int>(1));
  const auto next = [](int parents) { return std::make_shared<int>(parents + 1); };
  EXPECT_EQ(number.get(next), 1);
  EXPECT_TRUE(passes_in_child([&] { return number.get(next) == 2 && number.get(next) == 2; }));
  EXPECT_EQ(number.get(next), 1);
}

TEST(Fork, ChildDoesNotWaitForUsersOfTheParent) {
  UseCount users;
  const uint32_t entered = users.enter();
  EXPECT_FALSE(users.abandoned());
  EXPECT_TRUE(passes_in_child([&] {
    const bool noticed = users.abandoned();
    users.wait_until_left();
    users.leave(entered);  // the parent's
    users.leave(users.enter());
    users.wait_until_left();
    return noticed && !users.abandoned();
  }));
  std::atomic<bool> left{false};
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
    users.leave(entered);
  });
  users.wait_until_left();
  EXPECT_TRUE(left);
  leaving.join();
}

TEST(Fork, ChildCanDestroyThePool) {
  for (const int threads : {1, 2, 8})
    for (const bool used : {false, true}) {
      auto pool = std::make_unique<ThreadPool>(threads);
      pool->reserve_arenas(64);
      const auto nothing = [](void*, int64_t, int64_t, void*) {};
      if (used) pool->run(100, 1, nothing, nullptr);
      EXPECT_TRUE(passes_in_child([&] {
        pool.reset();
        return true;
      })) << threads
          << used;
    }
}

TEST(Fork, PoolWorksInAChildOfABusyParent) {
  auto pool = std::make_unique<ThreadPool>(4);
  pool->reserve_arenas(5000);
  const auto write = [](void*, int64_t, int64_t, void* arena) { memset(arena, 1, 5000); };
  const Meanwhile running([&] { pool->run(16, 1, write, nullptr); });
  const Meanwhile also([&] { pool->run_inline(1, true, write, nullptr); });
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(passes_in_child([&] {
      std::atomic<int64_t> sum{0};
      const auto add = [](void* to, int64_t begin, int64_t end, void* arena) {
        memset(arena, 1, 10000);
        for (int64_t index = begin; index < end; ++index)
          *static_cast<std::atomic<int64_t>*>(to) += index;
      };
      pool->reserve_arenas(10000);
      pool->run(100, 0, add, &sum);
      pool->run_inline(100, true, add, &sum);
      pool.reset();
      return sum == 2 * 4950;
    }));
}

TEST(Fork, ChildDoesNotWaitForALogCallback) {
  std::atomic<int> state{0};  // 1: inside the callback; 2: the callback may return
  const auto wait = [](void* user, int32_t, const char*) {
    auto& at = *static_cast<std::atomic<int>*>(user);
    if (at == 0) at = 1;
    while (at == 1) std::this_thread::yield();
  };
  const int id = add_log_callback(wait, &state);
  std::thread logging([] { log(LogLevel::error, "from a thread of the parent"); });
  while (state == 0) std::this_thread::yield();
  EXPECT_TRUE(passes_in_child([&] {
    state = 2;
    log(LogLevel::error, "from the child");
    remove_log_callback(id);
    return true;
  }));
  state = 2;
  logging.join();
  remove_log_callback(id);
}

// A thread of the parent compiles the kernel. That thread does not exist in the child, so the child
// must not wait for it.
TEST(Fork, KernelThatTheParentCompilesIsAnErrorInTheChild) {
  test::TempFolder folder;
  const auto device = test::fake_cpu(folder.path());
  const auto known = device->load("known", device->base_options());
  const int64_t before = test::fake_compiles();
  std::thread building([&] { device->load("slow kernel", device->base_options()); });
  while (test::fake_compiles() == before) std::this_thread::yield();
  EXPECT_TRUE(passes_in_child([&] {
    const auto options = device->base_options();
    if (device->load("known", options) != known) return false;
    // At the fork, the parent was inside the compiler. The child must report an error and not hang.
    const std::string text =
        expect_error(Status::forked_process, [&] { device->load("slow kernel", options); });
    return text.find("forked while another thread") != std::string::npos;
  }));
  building.join();
#if !defined(__SANITIZE_THREAD__)  // it lets no forked child start a thread
  EXPECT_TRUE(
      passes_in_child([&] { return device->load("another", device->base_options()) != nullptr; }));
#endif
}

}  // namespace
}  // namespace ligerdsl::runtime
