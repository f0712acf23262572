// What the environment does, in processes of their own: it is read once.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "runtime/compiler_library.h"
#include "runtime/driver.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "support.h"

extern char** environ;

namespace ligerdsl::runtime {
namespace {

// Runs one (disabled) test of this program with these variables added. True when it passed.
bool passes_with(const std::string& name, const std::vector<std::string>& variables) {
  std::vector<std::string> keep = variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("LIGERDSL_")) keep.emplace_back(*variable);
  std::vector<char*> environment;
  for (std::string& variable : keep) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=*" + name, also = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), filter.data(), also.data(), nullptr};
  pid_t child = 0;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environment.data()) != 0) return false;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int count_files(const std::string& folder, const std::string& ending) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().string().ends_with(ending);
  return count;
}

TEST(EnvironmentChild, DISABLED_LoadOnCpu) {
  auto device = Device::create({});
  EXPECT_EQ(device->description().threads, 3);
  device->load("program", {});
}

TEST(EnvironmentChild, DISABLED_LoadOnGpu) {
  test::fake_cuda().reset();
  DeviceConfig config;
  config.kind = DeviceKind::cuda;
  auto device = Device::create(config);
  EXPECT_EQ(Driver::shared()->path(), FAKE_CUDA);
  auto kernel = device->load("program", device->base_options());
  EXPECT_EQ(kernel->artifact().code, ".version 8.0 // edited ligerdsl_fake");
  EXPECT_FALSE(kernel->artifact().launch_overlap) << "the edited text does not wait for what runs before it";
}

TEST(EnvironmentChild, DISABLED_NoOverlapOnGpu) {
  test::fake_cuda().reset();
  EXPECT_FALSE(Device::create({.kind = DeviceKind::cuda})->base_options().launch_overlap);
}

TEST(Environment, ThreadsCacheCompilerDumpAndLogFile) {
  test::TempFolder folder;
  const std::string path = folder.path();
  EXPECT_TRUE(passes_with("DISABLED_LoadOnCpu",
                          {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE_DIR=" + path + "/cache",
                           "LIGERDSL_NUM_THREADS=3", "LIGERDSL_DUMP=tile,llvm", "LIGERDSL_DUMP_DIR=" + path,
                           "LIGERDSL_LOG=info", "LIGERDSL_LOG_FILE=" + path + "/log", "LIGERDSL_CACHE=bad"}));
  EXPECT_EQ(count_files(path + "/cache", ".art"), 1);
  EXPECT_EQ(count_files(path, ".tile"), 1);
  EXPECT_EQ(count_files(path, ".llvm"), 1);
  const std::string log = test::read_file(path + "/log");
  EXPECT_NE(log.find("LIGERDSL_CACHE: expected off|ro|rw|required, got \"bad\""), std::string::npos) << log;
  EXPECT_NE(log.find("wrote " + path + "/ligerdsl_fake-"), std::string::npos) << log;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != ".tile") continue;
    EXPECT_EQ(test::read_file(entry.path()), "stage tile of program");
  }
}

TEST(Environment, DumpFilter) {
  test::TempFolder folder;
  EXPECT_TRUE(passes_with("DISABLED_LoadOnCpu",
                          {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_CACHE=off", "LIGERDSL_NUM_THREADS=3",
                           "LIGERDSL_DUMP=all", "LIGERDSL_DUMP_DIR=" + folder.path(), "LIGERDSL_DUMP_FILTER=other"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Environment, LaunchOverlapIsSwitchedOff) {
  EXPECT_TRUE(passes_with("DISABLED_NoOverlapOnGpu", {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_LIBCUDA=" FAKE_CUDA,
                                                      "LIGERDSL_CACHE=off", "LIGERDSL_LAUNCH_OVERLAP=off"}));
}

TEST(Environment, DriverAndOverride) {
  test::TempFolder folder;
  test::write_file(folder.path() + "/ligerdsl_fake.ptx", ".version 8.0 // edited ligerdsl_fake");
  EXPECT_TRUE(passes_with("DISABLED_LoadOnGpu",
                          {"LIGERDSL_COMPILER=" FAKE_COMPILER, "LIGERDSL_LIBCUDA=" FAKE_CUDA, "LIGERDSL_CACHE=off",
                           "LIGERDSL_OVERRIDE_DIR=" + folder.path(), "LIGERDSL_LOG=off"}));
}

}  // namespace
}  // namespace ligerdsl::runtime
