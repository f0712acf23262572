// Tests environment variables in separate processes, because a process reads them once.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "runtime/cache/disk_cache.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::count;
using test::count_files;
using test::passes_with;

TEST(EnvironmentChild, DISABLED_LoadOnCpu) {
  auto device = Device::create({});
  EXPECT_EQ(device->description().threads, 3);
  device->load("program", {});
}

TEST(EnvironmentChild, DISABLED_LoadTwiceOnCpu) {
  auto device = Device::create({});
  device->load("program", {});
  device->load("program", {});
}

TEST(EnvironmentChild, DISABLED_LoadOnGpuToo) {
  test::fake_cuda().reset();
  auto device = Device::create({.kind = DeviceKind::cuda});
  device->load("program", device->base_options());
}

TEST(EnvironmentChild, DISABLED_LimitAndNoJit) {
  auto device = Device::create({});
  EXPECT_EQ(device->disk_cache().limit_bytes(), int64_t{3} << 20);
  EXPECT_EQ(Device::create({.cache_limit_bytes = 4096})->disk_cache().limit_bytes(), 4096);
  test::expect_error(Status::not_supported, [&] { device->load("program", {}); });
}

TEST(EnvironmentChild, DISABLED_NoOverlapOnGpu) {
  test::fake_cuda().reset();
  EXPECT_FALSE(Device::create({.kind = DeviceKind::cuda})->base_options().launch_overlap);
}

// After the reader has closed the log pipe, a write raises SIGPIPE, which ends a process by
// default. The library must ignore it.
TEST(EnvironmentChild, DISABLED_LogIntoAPipe) {
  const int reader = open(std::getenv("LIGERDSL_LOG_FILE"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  log(LogLevel::warning, "first");
  char line[200] = {};
  EXPECT_GT(read(reader, line, sizeof line - 1), 0);
  EXPECT_NE(std::string(line).find("first"), std::string::npos);
  close(reader);
  log(LogLevel::warning, "second");
}

TEST(Environment, LogPipeWithoutReaderDoesNotEndTheProcess) {
  test::TempFolder folder;
  ASSERT_EQ(mkfifo((folder.path() + "/log").c_str(), 0600), 0);
  EXPECT_TRUE(
      passes_with("DISABLED_LogIntoAPipe", {"LIGERDSL_LOG_FILE=" + folder.path() + "/log"}));
}

TEST(Environment, SetsThreadsCacheCompilerDumpAndLogFile) {
  test::TempFolder folder;
  const std::string path = folder.path();
  EXPECT_TRUE(passes_with(
      "DISABLED_LoadOnCpu",
      {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE_DIR=" + path + "/cache",
       "LIGERDSL_NUM_THREADS=3", "LIGERDSL_DUMP=tile", "LIGERDSL_DUMP_DIR=" + path,
       "LIGERDSL_LOG=info", "LIGERDSL_LOG_FILE=" + path + "/log", "LIGERDSL_CACHE=bad"}));
  EXPECT_EQ(count_files(path + "/cache", ".art"), 1);
  const std::string log = test::read_file(path + "/log");
  EXPECT_NE(log.find("LIGERDSL_CACHE: expected off|ro|rw|required, got \"bad\""), std::string::npos)
      << log;
  EXPECT_NE(log.find("wrote " + path + "/ligerdsl_fake-"), std::string::npos) << log;
}

TEST(Environment, UnwritableLogFileWarnsOnceAndLogsToStderr) {
  test::TempFolder folder;
  const std::string path = folder.path(), errors = path + "/errors";
  test::write_file(path + "/target", "");
  std::filesystem::create_symlink(path + "/target", path + "/link");
  ASSERT_EQ(mkfifo((path + "/pipe").c_str(), 0600), 0);  // no process reads it
  for (const auto& [file, reason] : std::vector<std::pair<std::string, std::string>>{
           {path + "/none/below/log", '"' + path + "/none\": No such file or directory"},
           {path + "/target/log", '"' + path + "/target\": Not a directory"},
           {path, '"' + path + "\": Is a directory"},
           {path + "/pipe", "No such device or address"},
           {path + "/link", "it is a symbolic link"}}) {
    EXPECT_TRUE(passes_with("DISABLED_LoadTwiceOnCpu",
                            {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE=off",
                             "LIGERDSL_LOG=debug", "LIGERDSL_LOG_FILE=" + file},
                            errors));
    const std::string log = test::read_file(errors);
    EXPECT_EQ(count(log, "LIGERDSL_LOG_FILE"), 1) << log;
    EXPECT_NE(log.find(reason), std::string::npos) << log;
    EXPECT_EQ(count(log, "compiled ligerdsl_fake"), 1) << log;
  }
  EXPECT_EQ(test::read_file(path + "/target"), "");
}

TEST(Environment, WarningNamesThePartOfTheCachePathThatFails) {
  test::TempFolder folder;
  const std::string errors = folder.path() + "/errors";
  test::write_file(folder.path() + "/home", "");
  EXPECT_TRUE(passes_with(
      "DISABLED_LoadTwiceOnCpu",
      {"LIGERDSL_COMPILER=" FAKE_COMPILER, "XDG_CACHE_HOME=" + folder.path() + "/home"}, errors));
  const std::string log = test::read_file(errors);
  EXPECT_EQ(count(log, "warning"), 1) << log;
  EXPECT_NE(log.find("/home\": Not a directory"), std::string::npos) << log;
}

TEST(Environment, DebugLogReportsCompilesHitsAndMisses) {
  test::TempFolder folder;
  const std::string errors = folder.path() + "/errors";
  const auto log_of = [&](const char* name) {
    EXPECT_TRUE(
        passes_with(name,
                    {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_LIBCUDA=" FAKE_CUDA,
                     "LIGERDSL_LOG=debug", "LIGERDSL_CACHE_DIR=" + folder.path() + "/cache"},
                    errors));
    return test::read_file(errors);
  };
  const auto expect_lines = [](const std::string& log, const std::vector<std::string>& lines) {
    size_t at = 0;
    for (const std::string& line : lines) {
      at = log.find(line, at);
      ASSERT_NE(at, std::string::npos) << line << "\nis not in, or not in this order\n" << log;
    }
  };
  std::string log = log_of("DISABLED_LoadTwiceOnCpu");
  expect_lines(log, {"debug: cache miss: unreadable_program for cpu (fake-cpu), key ",
                     "debug: compiled ligerdsl_fake for cpu (fake-cpu) in ", " ms, key ",
                     "debug: cache hit in memory: ligerdsl_fake for cpu (fake-cpu), key "});
  const size_t key = log.find("key ") + 4;
  const std::string name = log.substr(key, 64) + ".art";
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/cache/" + name)) << name;
  log = log_of("DISABLED_LoadTwiceOnCpu");
  expect_lines(log, {"cache hit on disk: ligerdsl_fake for cpu",
                     "cache hit in memory: ligerdsl_fake for cpu"});
  EXPECT_EQ(count(log, "compiled"), 0) << log;
  expect_lines(
      log_of("DISABLED_LoadOnGpuToo"),
      {"cache miss: unreadable_program for sm_90a, PTX ", "compiled ligerdsl_fake for sm_90a, PTX ",
       "cubin assembled by the driver: ligerdsl_fake for sm_90a, driver "});
  expect_lines(log_of("DISABLED_LoadOnGpuToo"),
               {"cubin hit on disk: ligerdsl_fake for sm_90a, driver ",
                "cache hit on disk: ligerdsl_fake for sm_90a"});
}

TEST(Environment, SetsCacheSizeAndNoJit) {
  test::TempFolder folder;
  EXPECT_TRUE(
      passes_with("DISABLED_LimitAndNoJit",
                  {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE_DIR=" + folder.path(),
                   "LIGERDSL_CACHE_SIZE=3M", "LIGERDSL_NO_JIT=1"}));
}

TEST(Environment, DisablesLaunchOverlap) {
  EXPECT_TRUE(passes_with("DISABLED_NoOverlapOnGpu",
                          {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_LIBCUDA=" FAKE_CUDA,
                           "LIGERDSL_CACHE=off", "LIGERDSL_LAUNCH_OVERLAP=off"}));
}

}  // namespace
}  // namespace ligerdsl::runtime
