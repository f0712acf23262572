// The CPU as a device. The compiler library links kernels into the process, and they run on the
// context's thread pool.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/device/device.h"
#include "runtime/environment/cpu_level.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::runtime {
namespace {

constexpr size_t kAlign = 256;
// A grid with a shorter expected time runs on the calling thread, because waking workers takes
// about as long.
constexpr double kInlineNanoseconds = 20000;
// On the calling thread, one launch in kTimedOf is timed. Of launches with an expected time far
// below kInlineNanoseconds, one in kTimedOfSmall is timed, because two clock reads would cost a
// quarter of their time.
constexpr uint32_t kTimedOf = 8, kTimedOfSmall = 64;
constexpr double kSmall = 1.0 / 16;  // fraction of kInlineNanoseconds

int64_t programs_in(const Grid& grid) {
  int64_t total = 0;
  const bool axes_fit =
      std::min({grid.x, grid.y, grid.z}) >= 0 && std::max({grid.x, grid.y, grid.z}) <= INT32_MAX;
  if (!axes_fit || __builtin_mul_overflow(grid.x * grid.y, grid.z, &total))
    fail(
        Status::invalid_shape,
        "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
            std::to_string(grid.z) +
            " programs: expected 0 to 2^31-1 programs per axis and fewer than 2^63 in total; split "
            "the call");
  return total;
}

class CpuKernel final : public LoadedKernel {
 public:
  CpuKernel(program::Artifact artifact, std::shared_ptr<CompilerLibrary::CpuModule> module,
            std::shared_ptr<ThreadPool> pool)
      : module_(std::move(module)), pool_(std::move(pool)) {
    artifact_ = std::move(artifact);
    resources_.code_bytes = static_cast<int64_t>(artifact_.code.size());
  }

  void launch(const uint64_t* slots, const Grid& grid, Stream) override {
    const int64_t total = programs_in(grid);
    if (total == 0) return;
    Call call{
        module_->entry,
        slots,
        {static_cast<int32_t>(grid.x), static_cast<int32_t>(grid.y), static_cast<int32_t>(grid.z)}};
    const double expected =
        static_cast<double>(total) * nanoseconds_per_program_.load(std::memory_order_relaxed);
    if (expected < kInlineNanoseconds) {
      const uint32_t number = inline_launches_.load(std::memory_order_relaxed);
      inline_launches_.store(number + 1, std::memory_order_relaxed);
      call.timed =
          number % (expected < kSmall * kInlineNanoseconds ? kTimedOfSmall : kTimedOf) == 0;
      pool_->run_inline(total, artifact_.arena_bytes > 0, &run, &call);
      if (!call.timed) return;
    } else {
      pool_->run(total, 0, &run, &call);
    }
    const double busy = static_cast<double>(call.busy_ns.load(std::memory_order_relaxed));
    nanoseconds_per_program_.store(busy / static_cast<double>(total), std::memory_order_relaxed);
  }

 private:
  struct Call {
    program::CpuEntry entry;
    const uint64_t* slots;
    int32_t grid[3];
    bool timed = true;
    std::atomic<int64_t> busy_ns{0};  // summed over all threads
  };

  static void run(void* user, int64_t begin, int64_t end, void* arena) {
    Call& call = *static_cast<Call*>(user);
    if (!call.timed) return call.entry(call.slots, call.grid, begin, end, arena);
    const auto start = std::chrono::steady_clock::now();
    call.entry(call.slots, call.grid, begin, end, arena);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    call.busy_ns.fetch_add(took.count(), std::memory_order_relaxed);
  }

  std::shared_ptr<CompilerLibrary::CpuModule> module_;
  std::shared_ptr<ThreadPool> pool_;
  // Time per program, summed over all threads, in the last timed launch. It decides whether workers
  // run the programs, never what the programs compute.
  std::atomic<double> nanoseconds_per_program_{kInlineNanoseconds};
  std::atomic<uint32_t> inline_launches_{0};
};

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

DeviceDescription describe(const DeviceConfig& config) {
  DeviceDescription result;
  result.name = cpu_model();
  result.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const int32_t asked = config.num_threads > 0 ? config.num_threads : options().num_threads;
  result.threads = asked > 0 ? asked : usable_cpus();
  return result;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceConfig& config)
      : Device(config, describe(config)),
        pool_(std::make_shared<ThreadPool>(description_.threads, config.allocator)) {}

  program::CompileOptions base_options() override {
    program::CompileOptions result;
    result.target = program::Target::cpu;
    if (const std::string& level = options().cpu; !level.empty()) {
      require_cpu_level(level, compiler()->host_features());
      result.arch = level;
      return result;
    }
    result.arch = compiler()->host_cpu();
    result.features = compiler()->host_features();
    return result;
  }

  void* alloc(size_t bytes) override {
    const size_t size = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    void* memory = size < bytes ? nullptr
                   : config_.allocator.alloc != nullptr
                       ? config_.allocator.alloc(config_.allocator.user, size, kAlign)
                       : std::aligned_alloc(kAlign, size);
    if (memory == nullptr)
      fail(Status::out_of_host_memory,
           "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    return memory;
  }

  void free(void* pointer) override {
    if (config_.allocator.alloc == nullptr) return std::free(pointer);
    if (pointer != nullptr && config_.allocator.free != nullptr)
      config_.allocator.free(config_.allocator.user, pointer);
  }

  void* alloc_mapped(size_t bytes) override { return alloc(bytes); }
  void free_mapped(void* pointer) override { free(pointer); }

  // Splits a large copy into one contiguous part per thread.
  void copy(void* to, const void* from, size_t bytes, Stream) override {
    if (bytes < kParallelCopy || overlap(to, from, bytes)) {
      if (bytes > 0) memmove(to, from, bytes);
      return;
    }
    struct Job {
      char* to;
      const char* from;
    } job{static_cast<char*>(to), static_cast<const char*>(from)};
    const auto total = static_cast<int64_t>(bytes);
    const int64_t part = (total / pool_->threads() + 4096) / 4096 * 4096;
    pool_->run(
        total, part,
        [](void* user, int64_t begin, int64_t end, void*) {
          const Job& it = *static_cast<const Job*>(user);
          memcpy(it.to + begin, it.from + begin, static_cast<size_t>(end - begin));
        },
        &job);
  }

  void fill(void* pointer, uint8_t value, size_t bytes, Stream) override {
    if (bytes > 0) memset(pointer, value, bytes);
  }

  std::string machine_code(const program::Artifact& artifact) override { return artifact.code; }

  // Returns the available memory, including page cache that the system can reclaim.
  int64_t free_memory() override {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kAvailable = "MemAvailable:";
      if (line.starts_with(kAvailable))
        return std::strtoll(line.c_str() + kAvailable.size(), nullptr, 10) * 1024;
    }
    return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  }

  Stream create_stream() override { return nullptr; }
  void destroy_stream(Stream) override {}
  void synchronize(Stream) override {}
  void synchronize_all() override {}
  bool capturing(Stream) override { return false; }

  // An event is a point in time.
  Event create_event() override { return reinterpret_cast<Event>(new Clock::time_point); }
  void destroy_event(Event event) override { delete point(event); }
  void record(Event event, Stream) override { *point(event) = Clock::now(); }
  double elapsed_ms(Event begin, Event end) override {
    return std::chrono::duration<double, std::milli>(*point(end) - *point(begin)).count();
  }

 protected:
  std::shared_ptr<Matmul> make_matmul() override { return make_cpu_matmul(); }

  std::shared_ptr<LoadedKernel> instantiate(program::Artifact artifact, const EditedStages& edited,
                                            LoadReport& report) override {
    PhaseClock clock(report);
    if (edited.code) artifact.code = edited.code.content;
    auto module = naming(
        edited.code, [&] { return compiler()->load_cpu_object(artifact.code, artifact.entry); });
    pool_->reserve_arenas(static_cast<size_t>(std::max<int64_t>(artifact.arena_bytes, 0)));
    auto kernel = std::make_shared<CpuKernel>(std::move(artifact), std::move(module), pool_);
    clock.lap("link");
    return kernel;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kParallelCopy = size_t{4} << 20;

  static Clock::time_point* point(Event event) {
    return reinterpret_cast<Clock::time_point*>(event);
  }
  static bool overlap(const void* a, const void* b, size_t bytes) {
    const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
    return x < y + bytes && y < x + bytes;
  }

  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(const DeviceConfig& config) {
  if (config.ordinal != 0)
    fail(Status::invalid_device,
         "cpu:" + std::to_string(config.ordinal) + " does not exist: expected cpu:0");
  if (config.num_threads < 0 || config.num_threads > 4096)
    fail(Status::invalid_argument,
         "num_threads: expected 0 to 4096, got " + std::to_string(config.num_threads));
  return std::make_shared<CpuDevice>(config);
}

}  // namespace ligerdsl::runtime
