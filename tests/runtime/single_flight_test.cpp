// Several threads, contexts and processes request one kernel at the same time. It must be compiled
// once.
#include "runtime/cache/single_flight.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "runtime/cache/kernel_cache.h"
#include "runtime/environment/log.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using namespace std::chrono_literals;
using test::fake_compiles;
using test::fake_cpu;
using test::fake_gpu;
using test::passes_in_child;
using test::TempFolder;

const Digest kKey = sha256("a kernel");
const std::string kEntry = entry_name(kKey, kArtifactSuffix);

void wait_for(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

// Counts the log lines that contain `text`, while the object exists.
class Lines {
 public:
  explicit Lines(std::string text) : text_(std::move(text)) {
    set_log_level(LogLevel::debug);
    id_ = add_log_callback(
        [](void* self, int32_t, const char* line) {
          auto& lines = *static_cast<Lines*>(self);
          lines.count_ += std::string_view(line).find(lines.text_) != std::string_view::npos;
        },
        this);
  }
  ~Lines() {
    remove_log_callback(id_);
    set_log_level(LogLevel::warning);
  }
  Lines(const Lines&) = delete;
  int count() const { return count_; }

 private:
  std::string text_;
  std::atomic<int> count_{0};
  int id_ = 0;
};

std::shared_ptr<Device> without_a_cache() {
  DeviceConfig config;
  config.cache_mode = CacheMode::off;
  config.compiler = test::fake_compiler();
  return Device::create(config);
}

// Loads one kernel from all contexts of this process. The compile waits at the gate, which opens
// after the log says that all other contexts wait.
void expect_one_compile(const std::vector<std::shared_ptr<Device>>& devices,
                        const std::string& gate) {
  const int64_t before = fake_compiles();
  const Lines waiting("waiting for another thread ");
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<LoadedKernel>> kernels(devices.size());
  std::vector<LoadReport> reports(devices.size());
  for (size_t i = 0; i < devices.size(); ++i)
    threads.emplace_back([&, i] {
      kernels[i] = devices[i]->load("gate " + gate, devices[i]->base_options(), &reports[i]);
    });
  wait_for([&] { return waiting.count() == static_cast<int>(devices.size()) - 1; });
  test::write_file(gate, "");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_compiles() - before, 1);
  int compiled = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    ASSERT_TRUE(kernels[i]);
    compiled += reports[i].origin == Origin::compiled;
  }
  EXPECT_EQ(compiled, 1);
}

TEST(SingleFlight, ContextsWithoutACacheCompileOnce) {
  TempFolder folder;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < 4; ++i) devices.push_back(without_a_cache());
  expect_one_compile(devices, folder.path() + "/gate");
}

TEST(SingleFlight, ContextsOfOneCacheCompileOnce) {
  TempFolder folder, gates;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < 4; ++i) devices.push_back(fake_cpu(folder.path()));
  expect_one_compile(devices, gates.path() + "/gate");
  EXPECT_EQ(devices[0]->disk_cache().usage().entries, 1);
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 0);
}

TEST(SingleFlight, ThreadsOfManyContextsCompileEachKernelOnce) {
  TempFolder folder;
  constexpr int kContexts = 3, kThreads = 3, kKernels = 6;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < kContexts; ++i) devices.push_back(fake_cpu(folder.path()));
  const int64_t before = fake_compiles();
  std::vector<std::thread> threads;
  for (int t = 0; t < kContexts * kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kKernels; ++i)
        ASSERT_TRUE(devices[t % kContexts]->load("slow " + std::to_string((i + t) % kKernels), {}));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_compiles() - before, kKernels);
}

TEST(SingleFlight, ProcessesOfOneCacheCompileEachKernelOnce) {
  TempFolder folder, counts;
  constexpr int kProcesses = 5, kKernels = 6;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      auto device = fake_cpu(folder.path());
      const int64_t before = fake_compiles();
      bool good = true;
      for (int i = 0; i < kKernels; ++i)
        good &= device->load("slow " + std::to_string((i + process) % kKernels), {}) != nullptr;
      test::write_file(counts.path() + "/" + std::to_string(process),
                       std::to_string(fake_compiles() - before));
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  int64_t compiles = 0;
  for (size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    waitpid(children[i], &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    compiles += std::stoll(test::read_file(counts.path() + "/" + std::to_string(i)));
  }
  EXPECT_EQ(compiles, kKernels);
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 0);
}

TEST(SingleFlight, ContextsAssembleMachineCodeOnce) {
  TempFolder folder;
  test::fake_cuda().reset();
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < 3; ++i) devices.push_back(fake_gpu(folder.path()));
  std::vector<std::thread> threads;
  for (const auto& device : devices)
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i)
        ASSERT_TRUE(device->load("slow " + std::to_string(i), device->base_options()));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(test::fake_cuda().calls_of("cuLinkCreate"), 4);
}

TEST(SingleFlight, EveryThreadGetsTheFailureAndNoneIsCached) {
  TempFolder folder;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < 3; ++i) devices.push_back(fake_cpu(folder.path()));
  std::vector<std::thread> threads;
  for (const auto& device : devices)
    threads.emplace_back([&] {
      test::expect_error(Status::compile_failed,
                         [&] { device->load("error", device->base_options()); });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 0);
}

// Kills a process that compiles while another process waits for the kernel. The waiter must
// continue before its time limit.
TEST(SingleFlight, KilledProcessReleasesTheWaiters) {
  TempFolder folder, gates;
  const std::string gate = gates.path() + "/gate";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    fake_cpu(folder.path())->load("gate " + gate, {});
    _exit(0);
  }
  wait_for([&] { return exists(gate + ".begun"); });
  const Lines waiting("waiting for another process ");
  const int64_t before = fake_compiles();
  auto device = fake_cpu(folder.path());
  LoadReport report;
  const auto start = std::chrono::steady_clock::now();
  std::thread thread([&] { device->load("gate " + gate, {}, &report); });
  wait_for([&] { return waiting.count() == 1; });
  EXPECT_EQ(fake_compiles(), before);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  test::write_file(gate, "");
  thread.join();
  EXPECT_EQ(report.origin, Origin::compiled);
  EXPECT_EQ(fake_compiles(), before + 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, SingleFlight::kLongestWait / 2);
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 0);
}

TEST(SingleFlight, WaitForALockEndsAtTheTimeLimit) {
  TempFolder folder;
  const CacheFolder cache(folder.path(), true);
  const EntryLock other(cache, kEntry, {}, 0ms);
  ASSERT_TRUE(other.held());
  const EntryLock lock(cache, kEntry, {}, 50ms);
  EXPECT_FALSE(lock.held());
  EXPECT_TRUE(lock.waited());
}

// Once the entry is stored, a waiter must continue without the lock.
TEST(SingleFlight, StoredEntryEndsTheWait) {
  TempFolder folder;
  const DiskCache disk(folder.path(), CacheMode::read_write);
  const EntryLock maker(disk.folder(), kEntry, {}, 0ms);
  std::atomic<bool> changed{false};
  std::thread waiter([&] {
    const EntryLock lock(disk.folder(), kEntry, {}, 60s);
    changed = !lock.held() && lock.entry_changed();
  });
  disk.write(kKey, kArtifactSuffix, "artifact");
  waiter.join();
  EXPECT_TRUE(changed);
  EXPECT_TRUE(maker.held());
}

// If the lock file cannot be made (here a folder has its name), every process compiles the kernel
// and none waits.
TEST(SingleFlight, MissingLockMeansNoWait) {
  TempFolder folder;
  const CacheFolder cache(folder.path(), true);
  std::filesystem::create_directory(folder.path() + "/" + lock_name(kEntry));
  const EntryLock lock(cache, kEntry, {}, 60s);
  EXPECT_FALSE(lock.held() || lock.waited());
  const DiskCache read_only(folder.path(), CacheMode::read_only);
  EXPECT_FALSE(SingleFlight(read_only, kKey, kCubinSuffix, {}).waited());
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 1);
}

TEST(SingleFlight, TrimRemovesOldAbandonedLocks) {
  TempFolder folder;
  const CacheFolder cache(folder.path(), true);
  EXPECT_TRUE(passes_in_child([&] {
    new EntryLock(cache, kEntry, {}, 0ms);  // never unlocked
    return true;
  }));
  ASSERT_EQ(test::count_files(folder.path(), ".lock"), 1);
  EXPECT_EQ(cache.trim({}).temporaries, 0);
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  utimensat(AT_FDCWD, (folder.path() + "/" + lock_name(kEntry)).c_str(), old, 0);
  EXPECT_EQ(cache.trim({}).temporaries, 1);
  EXPECT_EQ(test::count_files(folder.path(), ".lock"), 0);
}

// A thread of the parent makes the entry when the process forks. The child does not have this
// thread.
TEST(SingleFlight, ForkedChildDoesNotWaitForItsParentsThread) {
  TempFolder folder;
  const DiskCache off("", CacheMode::off);
  const DiskCache disk(folder.path(), CacheMode::read_write);
  std::atomic<bool> begun{false}, over{false};
  std::thread maker([&] {
    const SingleFlight in_memory(off, kKey, kArtifactSuffix, {});
    const SingleFlight on_disk(disk, kKey, kArtifactSuffix, {});
    begun = true;
    wait_for([&] { return over.load(); });
  });
  wait_for([&] { return begun.load(); });
  EXPECT_TRUE(passes_in_child([&] {
    const SingleFlight flight(off, kKey, kArtifactSuffix, {});
    return !flight.made() && !flight.waited();
  }));
  // With a cache folder, the lock belongs to the live parent, so the child waits until its time
  // limit.
  EXPECT_TRUE(passes_in_child([&] {
    const SingleFlight flight(disk, kKey, kArtifactSuffix, {}, 50ms);
    return !flight.made() && flight.waited();
  }));
  over = true;
  maker.join();
  EXPECT_FALSE(SingleFlight(disk, kKey, kArtifactSuffix, {}).waited())
      << "the child has left the lock as it was";
}

}  // namespace
}  // namespace ligerdsl::runtime
