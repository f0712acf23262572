// Tests ranges and traces on the fakes, with threads, forked children and full disks. Each case
// runs in its own process, because a process looks for listeners only once.
// tests/cli/ranges_test.py tests the ranges of the command.
#include "runtime/observe/ranges.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "allocations.h"
#include "runtime/system/files.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::count;
using test::passes_with;
using test::read_file;

constexpr int kThreads = 4, kLaunches = 10;

void launch(LoadedKernel& kernel) {
  std::vector<int64_t> out(8);
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out.data()), out.size()};
  kernel.launch(slots, {static_cast<int64_t>(out.size()), 1, 1}, nullptr);
  EXPECT_EQ(out[7], 22);
}

TEST(RangesChild, DISABLED_Threads) {
  auto device = Device::create({});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto kernel = device->load("program " + std::to_string(t), {});
      for (int i = 0; i < kLaunches; ++i) launch(*kernel);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RangesChild, DISABLED_ForkedWhileOthersTell) {
  auto kernel = Device::create({})->load("program", {});
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) launch(*kernel);
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(test::passes_in_child([&] {
      report_span("child", 1000, 2000);
      return true;
    }));
  }
  done = true;
  other.join();
}

TEST(RangesChild, DISABLED_ToolThatListensLater) {
  auto kernel = Device::create({})->load("program", {});
  launch(*kernel);
  void* tool = dlopen(NVTX_TOOL, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "it was attached";
  reinterpret_cast<void (*)()>(dlsym(tool, "nvtx_tool_begin"))();
  launch(*kernel);
}

// Limits files to 4 KiB. A write beyond this limit raises SIGXFSZ, which ends the process unless
// the signal is ignored.
TEST(RangesChild, DISABLED_FullDisk) {
  auto kernel = Device::create({})->load("program", {});
  const rlimit most{4096, 4096};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &most), 0);
  for (int i = 0; i < 100; ++i) launch(*kernel);
}

TEST(RangesChild, DISABLED_WithoutMemory) {
  auto kernel = Device::create({})->load("program", {});
  std::vector<int64_t> out(8);
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out.data()), out.size()};
  {
    const test::NoMemory here;
    for (int i = 0; i < 3; ++i) kernel->launch(slots, {8, 1, 1}, nullptr);
  }
  EXPECT_EQ(out[7], 22);
  launch(*kernel);
}

// Locks the trace file through a second descriptor, as another process would.
TEST(RangesChild, DISABLED_WhileTheFileIsLocked) {
  auto kernel = Device::create({})->load("program", {});
  launch(*kernel);
  const File file(open(std::getenv("LIGERDSL_TRACE"), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] { launch(*kernel); });
  EXPECT_TRUE(test::passes_in_child([&] {
    launch(*kernel);
    return true;
  }));
  other.join();
  for (int i = 0; i < 1000; ++i) launch(*kernel);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "waited for once, not each time";
  ASSERT_EQ(flock(file.get(), LOCK_UN), 0);
  launch(*kernel);
  launch(*kernel);
}

// The first context attaches a tool that is slow to begin. Meanwhile other threads create contexts.
TEST(RangesChild, DISABLED_ContextsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([] { launch(*Device::create({})->load("program", {})); });
  for (std::thread& thread : threads) thread.join();
}

TEST(RangesChild, DISABLED_GridThatCannotBeCounted) {
  auto kernel = Device::create({})->load("program", {});
  const uint64_t slots[2] = {};
  test::expect_error(Status::invalid_shape, [&] {
    kernel->launch(slots, {INT32_MAX, INT32_MAX, INT32_MAX}, nullptr);
  });
}

class Ranges : public ::testing::Test {
 protected:
  std::vector<std::string> variables() const {
    return {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE=off", "LIGERDSL_TRACE=" + trace,
            "NVTX_INJECTION64_PATH=" NVTX_TOOL, "NVTX_TOOL_RECORD=" + record};
  }
  // Returns the lines of the trace between the brackets. Each line is one event, and all but the
  // last end in a comma.
  std::vector<std::string> events() const {
    std::vector<std::string> lines;
    std::istringstream text(read_file(trace));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    EXPECT_GE(lines.size(), 3u);
    EXPECT_EQ(lines.front(), "[");
    EXPECT_EQ(lines.back(), "]");
    lines = {lines.begin() + 1, lines.end() - 1};
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_TRUE(lines[i].starts_with("{\"name\":\"")) << lines[i];
      EXPECT_TRUE(lines[i].ends_with(i + 1 < lines.size() ? "}}," : "}}")) << lines[i];
    }
    return lines;
  }

  test::TempFolder scratch;
  const std::string trace = scratch.path() + "/trace.json", record = scratch.path() + "/record";
};

TEST_F(Ranges, NestPerThread) {
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_Threads", variables()));
  std::map<std::string, int> depth, launches;
  std::istringstream lines(read_file(record));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, domain, thread;
    words >> what >> domain >> thread;
    if (what == "push") ++depth[thread];
    if (what == "pop") --depth[thread];
    EXPECT_GE(depth[thread], 0) << line;
    if (line.ends_with(" 8 launch ligerdsl_fake")) ++launches[thread];
  }
  for (const auto& [thread, open] : depth) EXPECT_EQ(open, 0) << thread;
  EXPECT_EQ(launches.size(), size_t{kThreads});
  for (const auto& [thread, times] : launches) EXPECT_EQ(times, kLaunches) << thread;
  EXPECT_EQ(count(read_file(trace), "\"cat\":\"launch\""), kThreads * kLaunches);
  events();
}

TEST_F(Ranges, ReachAToolThatStartsLate) {
  auto all = variables();
  all.emplace_back("NVTX_TOOL_LATER=1");
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_ToolThatListensLater", all));
  const std::string recorded = read_file(record);
  EXPECT_TRUE(recorded.starts_with("domain ligerdsl\n")) << recorded;
  EXPECT_EQ(count(recorded, "\npush ligerdsl "), 1) << recorded;
  EXPECT_EQ(count(recorded, "\npop ligerdsl "), 1) << recorded;
}

TEST_F(Ranges, ForkedChildrenWriteToTheSameFile) {
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_ForkedWhileOthersTell", variables()));
  EXPECT_EQ(count(read_file(trace), "\"name\":\"child\""), 5);
  events();
}

TEST_F(Ranges, TraceOnAFullDiskStaysValid) {
  const std::string errors = scratch.path() + "/errors";
  auto all = variables();
  std::erase_if(all, [](const std::string& one) {
    return one.starts_with("NVTX_INJECTION");
  });  // the NVTX tool would write files, too
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_FullDisk", all, errors));
  EXPECT_GT(events().size(), 3u);
  EXPECT_LE(read_file(trace).size(), 4096u);
  EXPECT_EQ(count(read_file(errors), "LIGERDSL_TRACE"), 1) << read_file(errors);
  EXPECT_NE(read_file(errors).find("File too large"), std::string::npos) << read_file(errors);
}

TEST_F(Ranges, CountsEventsLostWithoutMemory) {
  const std::string errors = scratch.path() + "/errors";
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_WithoutMemory", variables(), errors));
  events();
  EXPECT_EQ(count(read_file(trace), "\"cat\":\"launch\""), 1) << read_file(trace);
  EXPECT_EQ(count(read_file(trace), "\"name\":\"events were lost\""), 1) << read_file(trace);
  EXPECT_NE(read_file(trace).find("\"args\":{\"events\":3}"), std::string::npos)
      << read_file(trace);
}

TEST_F(Ranges, CountsEventsLostWhileTheFileIsLocked) {
  const std::string errors = scratch.path() + "/errors";
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_WhileTheFileIsLocked", variables(), errors));
  events();
  EXPECT_EQ(count(read_file(trace), "\"cat\":\"launch\""), 3) << "one before and two after";
  EXPECT_EQ(count(read_file(trace), "\"name\":\"events were lost\""), 1);
  EXPECT_NE(read_file(trace).find("\"args\":{\"events\":1001}"), std::string::npos)
      << read_file(trace);
  EXPECT_NE(read_file(errors).find("another process keeps it locked"), std::string::npos)
      << read_file(errors);
}

TEST_F(Ranges, IncludeContextsCreatedWhileAToolAttaches) {
  auto all = variables();
  all.emplace_back("NVTX_TOOL_SLOW=1");
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_ContextsAtOnce", all));
  EXPECT_EQ(count(read_file(record), " 8 launch ligerdsl_fake"), kThreads) << read_file(record);
  EXPECT_EQ(count(read_file(trace), "\"cat\":\"launch\""), kThreads);
}

TEST_F(Ranges, UncountableGridHasNoPayload) {
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_GridThatCannotBeCounted", variables()));
  EXPECT_EQ(count(read_file(record), " none launch ligerdsl_fake"), 1) << read_file(record);
}

TEST_F(Ranges, ReportsATraceThatIsNotARegularFile) {
  ASSERT_EQ(mkfifo(trace.c_str(), 0600), 0);
  const std::string errors = scratch.path() + "/errors";
  EXPECT_TRUE(passes_with("RangesChild.DISABLED_Threads", variables(), errors));
  EXPECT_EQ(count(read_file(errors), "it is not a regular file"), 1) << read_file(errors);
}

}  // namespace
}  // namespace ligerdsl::runtime
