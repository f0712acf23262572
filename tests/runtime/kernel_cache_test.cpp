// Tests Device::load on the CPU with the fake compiler: the reported origin, cache keys, faults,
// and loads by several threads.
#include "runtime/cache/kernel_cache.h"

#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "program/serialize.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/device/measure.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::fake_compiles;
using test::fake_cpu;
using test::TempFolder;

void expect_runs(LoadedKernel& kernel, int64_t n = 1000) {
  std::vector<int64_t> out(static_cast<size_t>(n), -1);
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out.data()), static_cast<uint64_t>(n)};
  kernel.launch(slots, {n, 1, 1}, nullptr);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], i * 3 + 1) << i;
}

TEST(KernelCache, LoadsFromCompilerThenMemoryThenDisk) {
  TempFolder folder;
  LoadReport report;
  {
    auto device = fake_cpu(folder.path());
    auto first = device->load("program", device->base_options(), &report);
    EXPECT_EQ(report.origin, Origin::compiled);
    std::vector<std::string> phases;
    for (const auto& phase : report.times) phases.push_back(phase.name);
    EXPECT_EQ(phases, (std::vector<std::string>{"lookup", "mlir", "llvm", "link", "store"}));
    EXPECT_EQ(report.times[1].milliseconds, 1.5);
    expect_runs(*first);
    EXPECT_EQ(device->load("program", device->base_options(), &report), first);
    EXPECT_EQ(report.origin, Origin::memory);
  }
  EXPECT_EQ(test::fake_modules_alive(), 0);
  const int64_t before = fake_compiles();
  auto device = fake_cpu(folder.path());
  auto kernel = device->load("program", device->base_options(), &report);
  EXPECT_EQ(report.origin, Origin::disk);
  EXPECT_EQ(fake_compiles(), before);
  expect_runs(*kernel);
}

TEST(KernelCache, EveryOptionChangesTheKey) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  const program::CompileOptions base = device->base_options();
  std::vector<program::CompileOptions> variants(13, base);
  variants[1].arch = "znver4";
  variants[2].features = "+avx512f";
  variants[3].ptx_version = 81;
  variants[4].num_warps = 8;
  variants[5].num_ctas = 2;
  variants[6].num_stages = 3;
  variants[7].max_registers = 64;
  variants[8].min_ctas_per_sm = 2;
  variants[9].contract = false;
  variants[10].facts = {{.pointer_align = 16}};
  variants[11].facts = {{.pointer_align = 16, .alias_class = 1}};
  variants[12].launch_overlap = false;
  std::set<LoadedKernel*> distinct;
  std::vector<std::shared_ptr<LoadedKernel>> kernels;
  for (const auto& options : variants) kernels.push_back(device->load("program", options));
  kernels.push_back(device->load("program2", base));
  for (const auto& kernel : kernels) distinct.insert(kernel.get());
  EXPECT_EQ(distinct.size(), kernels.size());
  EXPECT_EQ(device->disk_cache().usage().entries, static_cast<int64_t>(kernels.size()));
}

TEST(KernelCache, DefaultCpuIsTheHost) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  EXPECT_EQ(device->base_options().arch, "fake-cpu");
  EXPECT_EQ(device->base_options().features, "+fake");
  auto named = device->load("program", device->base_options());
  EXPECT_EQ(device->load("program", program::CompileOptions{}), named);
}

TEST(KernelCache, RecompilesDamagedEntries) {
  TempFolder folder;
  { fake_cpu(folder.path())->load("program", {}); }
  const std::string path = std::filesystem::directory_iterator(folder.path())->path();
  const std::string whole = test::read_file(path);
  for (size_t size = 0; size < whole.size(); size += 7) {
    test::write_file(path, whole.substr(0, size));
    LoadReport report;
    auto device = fake_cpu(folder.path());
    expect_runs(*device->load("program", {}, &report), 10);
    EXPECT_EQ(report.origin, Origin::compiled) << size;
  }
}

TEST(KernelCache, RecompilesEntriesThatDoNotParse) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  const Digest key = KernelCache::key("program", program::serialize(device->base_options()));
  DiskCache(folder.path(), CacheMode::read_write).write(key, ".art", "not an artifact");
  LoadReport report;
  expect_runs(*device->load("program", {}, &report));
  EXPECT_EQ(report.origin, Origin::compiled);
}

TEST(KernelCache, FailuresAreNotCached) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  for (int i = 0; i < 2; ++i) {
    const std::string text =
        expect_error(Status::compile_failed, [&] { device->load("error", {}); });
    EXPECT_NE(text.find("kernel.cpp:3:7"), std::string::npos) << text;
  }
  expect_error(Status::internal_error, [&] { device->load("internal", {}); });
  expect_error(Status::internal_error, [&] { device->load("unlinkable", {}); });
  EXPECT_EQ(device->disk_cache().usage().entries, 0);
  expect_runs(*device->load("program", {}));
}

TEST(KernelCache, LlvmFatalErrorDoesNotEndTheProcess) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  for (int i = 0; i < 3; ++i) {
    const std::string text =
        expect_error(Status::compile_failed, [&] { device->load("fatal", {}); });
    EXPECT_NE(text.find("Cannot select: fsin"), std::string::npos) << text;
  }
  expect_runs(*device->load("program", {}));
}

TEST(KernelCache, ThreadsCompileAKeyOnce) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  const int64_t before = fake_compiles();
  std::vector<std::shared_ptr<LoadedKernel>> kernels(6);
  std::vector<std::thread> threads;
  for (auto& kernel : kernels)
    threads.emplace_back([&] { kernel = device->load("slow program", {}); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_compiles() - before, 1);
  for (auto& kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
}

TEST(KernelCache, ThreadsLoadAndLaunchConcurrently) {
  TempFolder folder;
  auto device = fake_cpu(folder.path(), 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i)
        expect_runs(*device->load("program " + std::to_string((t + i) % 5), {}), 100);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(KernelCache, NoJitForbidsCompiling) {
  TempFolder folder;
  DeviceConfig config;
  config.cache_dir = folder.path();
  config.compiler = test::fake_compiler();
  config.no_jit = true;
  auto device = Device::create(config);
  const std::string text =
      expect_error(Status::not_supported, [&] { device->load("program", {}); });
  EXPECT_NE(text.find("NO_JIT"), std::string::npos);
  EXPECT_NE(text.find("ligerdsl cache warm"), std::string::npos);
  fake_cpu(folder.path())->load("program", {});
  expect_runs(*device->load("program", {}));
}

// `ligerdsl cache warm` stores entries without a device. A device of the same target must find
// them.
TEST(KernelCache, FindsEntriesStoredWithoutADevice) {
  TempFolder folder;
  const DiskCache disk(folder.path(), CacheMode::required);
  DeviceConfig config;
  config.cache_dir = folder.path();
  config.compiler = test::fake_compiler();
  config.no_jit = true;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    config.kind = kind;
    if (kind == DeviceKind::cuda) config.driver = test::fake_driver();
    auto device = Device::create(config);
    const program::CompileOptions options = device->base_options();
    const auto keep = [&] {
      return KernelCache::keep(
          disk,
          [](auto program, auto bytes) { return test::fake_compiler()->compile(program, bytes); },
          "program", options);
    };
    EXPECT_THROW(device->load("program", options), NotCached);
    const int64_t before = fake_compiles();
    EXPECT_EQ(keep(), Origin::compiled);
    EXPECT_EQ(keep(), Origin::disk);
    EXPECT_EQ(fake_compiles(), before + 1);
    LoadReport report;
    device->load("program", options, &report);
    EXPECT_EQ(report.origin, Origin::disk);
    EXPECT_EQ(fake_compiles(), before + 1);
  }
}

TEST(KernelCache, RejectsWrongTargetAndEmit) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  program::CompileOptions options;
  options.target = program::Target::nvptx;
  expect_error(Status::invalid_argument, [&] { device->load("program", options); });
  options = {};
  options.emit = "tile";
  expect_error(Status::invalid_argument, [&] { device->load("program", options); });
  EXPECT_EQ(device->emit("program", {}, "tile"), "stage tile of program");
}

TEST(CpuDevice, ChecksGridsAndCopiesMemory) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  auto kernel = device->load("program", {});
  const uint64_t slots[2] = {};
  kernel->launch(slots, {0, 5, 5}, nullptr);
  for (Grid grid :
       {Grid{-1, 1, 1}, Grid{int64_t{1} << 31, 1, 1}, Grid{INT32_MAX, INT32_MAX, INT32_MAX}})
    expect_error(Status::invalid_shape, [&] { kernel->launch(slots, grid, nullptr); });
  expect_error(Status::out_of_host_memory, [&] { device->alloc(SIZE_MAX - 10); });
  constexpr size_t size = (size_t{9} << 20) + 13;
  auto* from = static_cast<uint8_t*>(device->alloc(size));
  auto* to = static_cast<uint8_t*>(device->alloc(size));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(from) % 256, 0u);
  for (size_t i = 0; i < size; ++i) from[i] = static_cast<uint8_t>(i * 7 >> 3);
  device->copy(to, from, size, nullptr);
  EXPECT_EQ(memcmp(to, from, size), 0);
  device->copy(from + 1, from, size - 1, nullptr);  // overlapping ranges, like memmove
  EXPECT_EQ(memcmp(from + 1, to, size - 1), 0);
  device->fill(to, 9, size, nullptr);
  EXPECT_EQ(to[size - 1], 9);
  device->free(from);
  device->free(to);
  EXPECT_GT(device->free_memory(), 0);
}

TEST(CpuDevice, RejectsInvalidConfigurations) {
  DeviceConfig config;
  config.ordinal = 1;
  expect_error(Status::invalid_device, [&] { Device::create(config); });
  config.ordinal = 0;
  config.num_threads = -1;
  expect_error(Status::invalid_argument, [&] { Device::create(config); });
  config.kind = static_cast<DeviceKind>(10);
  expect_error(Status::invalid_device, [&] { Device::create(config); });
}

TEST(CpuDevice, MeasuresTime) {
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  MeasureOptions options;
  options.cold = false;
  options.min_samples = options.max_samples = 3;
  const Measurement result = measure(
      *device, [](Stream) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }, options);
  EXPECT_EQ(result.samples_ms.size(), 3u);
  EXPECT_GE(result.min_ms, 2);
  EXPECT_LE(result.q20_ms, result.median_ms);
  EXPECT_LE(result.median_ms, result.q80_ms);
}

// Each sample overwrites the caches, and eleven samples take more than a millisecond. Without the
// time limit, all 201 samples would be taken.
TEST(CpuDevice, MeasurementLimitsTimeSpentOverwritingCaches) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers take long to overwrite the caches";
  TempFolder folder;
  auto device = fake_cpu(folder.path());
  MeasureOptions options;
  options.budget_ms = 0.1;
  options.warmup = 0;
  const Measurement result = measure(
      *device, [](Stream) {}, options);
  EXPECT_EQ(result.samples_ms.size(), static_cast<size_t>(options.min_samples));
}

TEST(CompilerLibrary, RejectsForeignLibraries) {
  EXPECT_NE(
      expect_error(Status::not_supported, [] { CompilerLibrary::open("/nowhere/compiler.so"); })
          .find("LIGERDSL_COMPILER"),
      std::string::npos);
  expect_error(Status::abi_mismatch, [] { CompilerLibrary::open("libm.so.6"); });
  const std::string text =
      expect_error(Status::abi_mismatch, [] { CompilerLibrary::open(FOREIGN_COMPILER); });
  EXPECT_NE(text.find("another build"), std::string::npos) << text;
}

}  // namespace
}  // namespace ligerdsl::runtime
