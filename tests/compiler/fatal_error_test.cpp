// Tests that an LLVM fatal error calls the hook and does not end the process.
#include "compiler/fatal_error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "llvm/Support/ErrorHandling.h"

namespace ligerdsl::compiler {
namespace {

std::mutex mutex;
std::condition_variable changed;
std::string reason;

void park(const char* text) {
  {
    std::lock_guard lock(mutex);
    reason = text;
  }
  changed.notify_all();
  for (;;) pause();
}

TEST(FatalError, ParksTheThreadAndCallsTheHook) {
  setFatalHook(park);
  std::thread([] { llvm::report_fatal_error("no libcall available for fexp"); }).detach();
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [] { return !reason.empty(); }));
  EXPECT_NE(reason.find("no libcall available for fexp"), std::string::npos) << reason;
  setFatalHook(nullptr);
}

}  // namespace
}  // namespace ligerdsl::compiler
