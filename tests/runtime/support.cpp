#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/compile/compiler_library.h"
#include "runtime/cuda/driver.h"
#include "runtime/environment/log.h"

extern char** environ;

namespace ligerdsl::runtime::test {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ligerdsl-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

const FakeCudaControl& fake_cuda() {
  static const auto* control = static_cast<const FakeCudaControl*>(
      dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda_control"));
  return *control;
}

std::shared_ptr<const Driver> fake_driver() {
  return Driver::open(FAKE_CUDA);
}

std::shared_ptr<CompilerLibrary> fake_compiler() {
  // On a GPU machine there is no build folder, so tests/gpu.sh passes the path in this variable.
  const char* carried = std::getenv("LIGERDSL_TEST_FAKE_COMPILER");
  static const std::shared_ptr<CompilerLibrary> library =
      CompilerLibrary::open(carried ? carried : FAKE_COMPILER);
  return library;
}

namespace {
int64_t counter(const char* name) {
  return reinterpret_cast<int64_t (*)()>(
      dlsym(dlopen(FAKE_COMPILER, RTLD_NOW | RTLD_LOCAL), name))();
}
}  // namespace

int64_t fake_compiles() {
  return counter("fake_compiler_compiles");
}
int64_t fake_modules_alive() {
  return counter("fake_compiler_loaded");
}

std::shared_ptr<Device> fake_cpu(const std::string& folder, int32_t threads) {
  DeviceConfig config;
  config.num_threads = threads;
  config.cache_dir = folder;
  config.compiler = fake_compiler();
  return Device::create(config);
}

std::shared_ptr<Device> fake_gpu(const std::string& folder) {
  DeviceConfig config;
  config.kind = DeviceKind::cuda;
  config.cache_dir = folder;
  config.compiler = fake_compiler();
  config.driver = fake_driver();
  return Device::create(config);
}

Warnings::Warnings()
    : id_(add_log_callback(
          [](void* user, int32_t level, const char* line) {
            if (level == static_cast<int32_t>(LogLevel::warning))
              static_cast<Warnings*>(user)->lines.push_back(line);
          },
          this)) {}

Warnings::~Warnings() {
  remove_log_callback(id_);
}

std::string expect_error(Status status, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected " << status_name(static_cast<int32_t>(status))
                << ", nothing was thrown";
  return "";
}

bool passes_in_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool good = false;
    try {
      good = work() && !::testing::Test::HasFailure();
    } catch (const std::exception& error) {
      fprintf(stderr, "in the child: %s\n", error.what());
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool passes_with(const std::string& name, const std::vector<std::string>& variables,
                 const std::string& errors_to) {
  std::vector<std::string> keep = variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("LIGERDSL_")) keep.emplace_back(*variable);
  std::vector<char*> environment;
  for (std::string& variable : keep) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=*" + name,
              also = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), filter.data(), also.data(), nullptr};
  pid_t child = 0;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!errors_to.empty())
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors_to.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int error =
      posix_spawn(&child, self.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return false;
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

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace ligerdsl::runtime::test
