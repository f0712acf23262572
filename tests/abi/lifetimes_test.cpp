// Contexts, threads and processes that end in unusual orders, and lack of memory: no process hangs
// or dies by a signal. Each case is a process (lifetime_program.cpp) with a time limit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

struct End {
  int status = 0;  // exit status, or 128 + signal as in a shell
  std::string printed;
};

End run(const std::string& words, const std::string& environment = "") {
  const std::string command = "LIGERDSL_CACHE=off LIGERDSL_LIBCUDA=" FAKE_CUDA " " +
#ifdef COMPILER
                              std::string("LIGERDSL_COMPILER=" COMPILER " ") +
#endif
                              environment + " " LIFETIME_PROGRAM " " + words + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {-1, "popen failed"};
  End end;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    end.printed.append(buffer, got);
  const int status = pclose(pipe);
  end.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

void expect_good(const std::string& words, const std::string& environment = "") {
  const End end = run(words, environment);
  EXPECT_EQ(end.status, 0) << environment << " " << words << "\n" << end.printed;
}

class Fork : public testing::TestWithParam<const char*> {};

// Returns true if this case starts threads in a child, which a sanitizer does not support:
// - The address sanitizer holds a lock while a thread starts, which is never released in a child.
// - The thread sanitizer identifies threads by addresses that a child's threads reuse.
bool sanitizer_fails([[maybe_unused]] const std::string& parent, const std::string& child) {
  [[maybe_unused]] const bool starts = child == "plan" || child == "create";
#if defined(__SANITIZE_ADDRESS__)
  return starts && (parent == "planning" || parent == "creating");
#elif defined(__SANITIZE_THREAD__)
  return starts || (child == "execute" && parent == "unused");
#else
  return false;
#endif
}

void expect_good_child(const std::string& device, const std::string& parent,
                       const std::string& child) {
  if (!sanitizer_fails(parent, child)) expect_good("fork " + device + " " + parent + " " + child);
}

TEST_P(Fork, ChildOfIdleParentEndsWell) {
  for (const char* device : {"cpu 1", "cpu 2", "cpu 8"})
    for (const char* parent : {"unused", "used"}) expect_good_child(device, parent, GetParam());
}

TEST_P(Fork, ChildOfBusyParentEndsWell) {
  for (const char* parent : {"executing", "planning", "creating"})
    expect_good_child("cpu 4", parent, GetParam());
}

TEST_P(Fork, ChildOfParentWithGpuEndsWell) {
  for (const char* parent : {"unused", "used", "executing", "planning", "creating"})
    expect_good_child("gpu 1", parent, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Child, Fork,
                         testing::Values("exit", "destroy", "execute", "plan", "create"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Exit, SucceedsWhileThreadsCompile) {
  for (int i = 0; i < 30; ++i) {
    for (const char* how : {"main", "static", "thread", "destroy"})
      expect_good("end " + std::string(how) + " " + std::to_string(i * 37 % 300));
    if (HasFailure()) break;
  }
}

#ifdef LIMITS_MEMORY  // a sanitizer reserves too much address space for a limit
// Expects success or OUT_OF_HOST_MEMORY. Status 127 means that the process could not be loaded.
void expect_a_word(const std::string& words, const std::string& environment) {
  const End end = run(words, environment);
  const bool loaded = end.status != 127;
  EXPECT_TRUE(end.status == 0 || end.status == 3 || !loaded) << words << ": " << end.status << "\n"
                                                             << end.printed;
  if (end.status == 3) {
    EXPECT_NE(end.printed.find("OUT_OF_HOST_MEMORY: "), std::string::npos) << words << "\n"
                                                                           << end.printed;
  }
}

void sweep(int from, int to, int step, int loops, const std::string& environment) {
  for (int megabytes = from; megabytes < to && !testing::Test::HasFailure(); megabytes += step)
    expect_a_word("memory " + std::to_string(megabytes) + " " + std::to_string(loops), environment);
}

TEST(Memory, SucceedsOrReportsItsLimit) {
  sweep(10, 240, 5, 1, "");
}

TEST(Memory, SucceedsOrReportsItsLimitForCompileInProcess) {
  sweep(10, 240, 10, 1, "LIGERDSL_COMPILE=process LIGERDSL_REPRODUCER_DIR=/nowhere");
}

// The kernel is so large that memory runs out inside LLVM.
TEST(Memory, LimitReachedInsideCompileIsNamed) {
  sweep(100, 200, 4, 80, "");
  sweep(100, 200, 10, 80, "LIGERDSL_COMPILE=process LIGERDSL_REPRODUCER_DIR=/nowhere");
}
#endif

}  // namespace
