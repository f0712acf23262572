#include "runtime/device/device.h"

#include "program/serialize.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/device/dump.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::runtime {
namespace {

void report_options() {
  if (options().ignored)
    log_once(LogLevel::info, "setuid",
             "this process is setuid or setgid, so environment variables are ignored");
  if (const std::string& problem = log_file_problem(); !problem.empty())
    log_once(LogLevel::warning, "log file", problem);
  for (const std::string& problem : options().problems)
    log_once(LogLevel::warning, problem, problem);
}

}  // namespace

std::shared_ptr<Device> Device::create(const DeviceConfig& config) {
  report_options();
  find_range_listeners();
  switch (config.kind) {
    case DeviceKind::cpu:
      return make_cpu_device(config);
    case DeviceKind::cuda:
      return make_cuda_device(config);
  }
  fail(Status::invalid_device, "device type " + std::to_string(static_cast<int>(config.kind)) +
                                   " is not supported: expected 1 (CPU) or 2 (CUDA)");
}

Device::Device(const DeviceConfig& config, DeviceDescription description)
    : config_(config), description_(std::move(description)) {
  disk_ = std::make_unique<DiskCache>(
      config.cache_dir ? *config.cache_dir : default_cache_directory(options()),
      config.cache_mode.value_or(options().cache),
      config.cache_limit_bytes > 0 ? config.cache_limit_bytes : options().cache_bytes);
  cache_ = std::make_unique<KernelCache>(
      *disk_,
      KernelCache::Steps{
          [this](std::string_view program, std::string_view options) {
            return compiler()->compile(program, options);
          },
          [this](program::Artifact artifact, const EditedStages& edited, LoadReport& report) {
            return instantiate(std::move(artifact), edited, report);
          },
          [this](std::string_view program, const program::CompileOptions& options,
                 const LoadedKernel* kernel, const EditedStages& edited) {
            dump_stages_of(*this, program, options, kernel, edited);
          }});
}

Device::~Device() = default;

std::shared_ptr<CompilerLibrary> Device::compiler() {
  return config_.compiler ? config_.compiler : CompilerLibrary::shared();
}

std::shared_ptr<Matmul> Device::matmul() {
  {
    const std::lock_guard lock(matmul_mutex_);
    if (matmul_) return matmul_;
  }
  std::shared_ptr<Matmul> made = make_matmul();  // without the lock, because it loads a library
  const std::lock_guard lock(matmul_mutex_);
  if (!matmul_) matmul_.swap(made);
  return matmul_;
}

const DiskCache& Device::disk_cache() const {
  return *disk_;
}

// Fills in empty target options with this device's values. The key then contains the actual CPU,
// not "this host".
program::CompileOptions Device::complete(program::CompileOptions options) {
  const bool for_cpu = options.target == program::Target::cpu;
  if (for_cpu != is_cpu())
    fail(Status::invalid_argument, std::string("the options are for the ") +
                                       (for_cpu ? "CPU" : "GPU") + " and the device is a " +
                                       (is_cpu() ? "CPU" : "GPU") +
                                       ": start from Device::base_options()");
  if (!options.arch.empty()) return options;
  const program::CompileOptions base = base_options();
  options.arch = base.arch;
  if (options.features.empty()) options.features = base.features;
  return options;
}

std::shared_ptr<LoadedKernel> Device::load(std::string_view program_bytes,
                                           const program::CompileOptions& options,
                                           LoadReport* report) {
  if (!options.emit.empty())
    fail(Status::invalid_argument, "load(): expected options without a stage to emit, got \"" +
                                       options.emit + "\"; call emit() for the text of a stage");
  const program::CompileOptions complete_options = complete(options);
  LoadReport own;
  LoadReport& to = report != nullptr ? *report : own;
  to = {};
  const bool may_compile = !config_.no_jit && !runtime::options().no_jit;
  return cache_->load(program_bytes, complete_options, may_compile, to);
}

std::string Device::emit(std::string_view program_bytes, const program::CompileOptions& options,
                         const std::string& stage) {
  program::CompileOptions with_stage = complete(options);
  with_stage.emit = stage;
  return program::parseArtifact(compiler()->compile(program_bytes, program::serialize(with_stage)))
      .code;
}

}  // namespace ligerdsl::runtime
