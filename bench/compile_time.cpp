// Measures the time from the builder to a loaded kernel, in bf16 (f32 on the CPU): RMSNorm forward
// with H = 4096, or matmul NT of many rows with N = K = 4096.
//
//   compile_time [cpu | cuda:N] [repetitions] [rms_norm_forward | matmul]
//
// JSON on stdout; times in milliseconds.
//
// - cold: our cache has no entry and the driver's cache is off; the process has compiled another
//   kernel.
// - first: like cold, but for vector_add, the first kernel of the process; loads the compiler
//   library.
// - disk: our disk cache has an entry; the device context and the compiler library are ready.
//
// Each repetition uses a new device object, so nothing is cached in memory. "builder" is the time
// for recording and serialising.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/compile_options.h"
#include "kernels/elementwise/vector_add.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/rms_norm.h"
#include "lib/abi/build_info.h"
#include "program/serialize.h"
#include "runtime/device/device.h"

namespace {

using namespace ligerdsl;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Sample {
  double total = 0;
  std::map<std::string, double> phases;
};

template <class Record>
Sample load(runtime::Device& device, Record record) {
  Sample sample;
  const auto begin = Clock::now();
  const kernels::Operation operation = record();
  const std::string bytes = program::serialize(operation.steps[0].program);
  sample.phases["builder"] = milliseconds_since(begin);
  const kernels::Step& step = operation.steps[0];
  const program::CompileOptions options =
      kernels::compile_options(device.base_options(), step.program, step.launch,
                               kernels::Variant::aligned, kernels::all_disjoint(step.program));
  runtime::LoadReport report;
  device.load(bytes, options, &report);
  sample.total = milliseconds_since(begin);
  for (const program::PhaseTime& phase : report.times)
    sample.phases[phase.name] += phase.milliseconds;
  return sample;
}

void print(const char* name, std::vector<Sample> samples, bool last = false) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.total < b.total; });
  const auto at = [&](double q) {
    return samples[std::min(samples.size() - 1, static_cast<size_t>(q * samples.size()))];
  };
  std::printf(
      "  \"%s\": {\"median_ms\": %.3f, \"p95_ms\": %.3f, \"samples\": %zu, "
      "\"phases_of_median_ms\": {",
      name, at(0.5).total, at(0.95).total, samples.size());
  const Sample median = at(0.5);
  const char* separator = "";
  for (const auto& [phase, time] : median.phases) {
    std::printf("%s\"%s\": %.3f", separator, phase.c_str(), time);
    separator = ", ";
  }
  std::printf("}}%s\n", last ? "" : ",");
}

}  // namespace

int main(int argc, char** argv) try {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
#ifdef LIGERDSL_COMPILER_FILE
  if (std::filesystem::exists(LIGERDSL_COMPILER_FILE))
    setenv("LIGERDSL_COMPILER", LIGERDSL_COMPILER_FILE, 0);
#endif
  const std::string where = argc > 1 ? argv[1] : "cpu";
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 21;
  const auto folder = std::filesystem::temp_directory_path() /
                      ("ligerdsl-compile-time-" + std::to_string(::getpid()));
  runtime::DeviceConfig config;
  if (where.rfind("cuda:", 0) == 0) {
    config.kind = runtime::DeviceKind::cuda;
    config.ordinal = std::atoi(where.c_str() + 5);
  }
  const kernels::Machine machine = config.kind == runtime::DeviceKind::cuda
                                       ? kernels::gpu("sm_90a", 132, 80)
                                       : kernels::Machine{};
  const DType type = machine.is_gpu() ? bf16 : f32;
  const std::string kernel = argc > 3 ? argv[3] : "rms_norm_forward";
  if (kernel != "rms_norm_forward" && kernel != "matmul")
    throw Error("error: expected the kernel rms_norm_forward or matmul, got \"" + kernel + "\"");
  const auto record = [&] {
    if (kernel == "matmul")
      return kernels::matmul(machine, {.transposes = kernels::Transposes::nt,
                                       .cols = 4096,
                                       .width = 4096,
                                       .type = type,
                                       .c_type = type});
    return kernels::rms_norm_forward(machine, {.cols = 4096, .type = type, .weight_type = type});
  };

  const auto fresh = [&](const std::string& cache) {
    config.cache_dir = cache;
    std::filesystem::create_directories(cache);
    std::filesystem::permissions(cache, std::filesystem::perms::owner_all);
    return runtime::Device::create(config);
  };
  std::vector<Sample> first, cold, disk;
  const auto keep = fresh(folder / "keep");  // keeps the GPU's context alive
  first.push_back(load(*keep, [&] { return kernels::vector_add(machine, type); }));
  for (int i = 0; i < repetitions; ++i) {
    const std::string cache = folder / std::to_string(i);
    cold.push_back(load(*fresh(cache), record));
    disk.push_back(load(*fresh(cache), record));
  }
  std::filesystem::remove_all(folder);
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
  std::printf(
      "{\n  \"date\": \"%s\",\n  \"build\": \"%s\",\n  \"device\": \"%s\",\n  \"kernel\": \"%s %s, "
      "4096 columns\",\n",
      date, lib::build_info(), keep->description().name.c_str(), kernel.c_str(), name(type));
  print("first", first);
  print("cold", cold);
  print("disk", disk, true);
  std::printf("}\n");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "compile_time: %s\n", error.what());
  return 1;
}
