// Tests that the sanitizers detect faults. Each test commits one fault in a child process, which
// must end with the sanitizer's report.
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <thread>
#include <vector>

namespace ligerdsl::test {
namespace {

// Returns the number through a volatile variable, so that the compiler cannot see the fault.
int at_run_time(int number) {
  volatile int hidden = number;
  return hidden;
}

#if defined(__SANITIZE_ADDRESS__)
TEST(Sanitizers, OutOfBoundsAccessEndsTheProcess) {
  const std::vector<int> numbers(8);
  EXPECT_DEATH(std::exit(numbers.data()[at_run_time(8)]), "heap-buffer-overflow");
}

TEST(Sanitizers, UndefinedBehaviourEndsTheProcess) {
  EXPECT_DEATH(std::exit(at_run_time(INT_MAX) + at_run_time(1)), "signed integer overflow");
}

TEST(Sanitizers, LeakFailsTheProcess) {
  auto leak = [] {
    void* volatile lost = std::malloc(100);
    lost = nullptr;
    std::exit(0);
  };
  EXPECT_DEATH(leak(), "detected memory leaks");
}
#endif

#if defined(__SANITIZE_THREAD__)
TEST(Sanitizers, RaceFailsTheProcess) {
  auto race = [] {
    int shared = 0;
    std::thread other([&] { ++shared; });
    ++shared;
    other.join();
    std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(race(), testing::ExitedWithCode(66), "data race");
}
#endif

}  // namespace
}  // namespace ligerdsl::test
