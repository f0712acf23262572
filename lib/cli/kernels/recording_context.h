// Contexts that record the kernels of their plans: LoadingContext for a device in this machine, and
// RecordingContext for a device that need not be present. Plans of a RecordingContext can never
// run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/unloaded_kernel.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

struct RecordedKernel {
  std::string program;  // serialised program
  program::CompileOptions options;
  std::shared_ptr<runtime::LoadedKernel> loaded = nullptr;  // null if the device is not present
};

// Returns the name of each recorded kernel's variant. For a GPU, every kernel is recorded in all
// its variants (kernels::variants_of). For a CPU, names are empty.
std::vector<std::string> variant_names(const std::vector<RecordedKernel>& all, bool gpu);

// Returns the recorded kernels of one variant.
std::vector<RecordedKernel> choose_variant(const std::vector<RecordedKernel>& all,
                                           const std::string& variant, bool gpu);

class RecordingContext : public lib::Context {
 public:
  // `device` is a CPU. If the compile target is also a CPU, tables of tuned kernels are searched
  // for an entry of `device`.
  explicit RecordingContext(const program::CompileOptions& base,
                            const runtime::DeviceConfig& device = {.kind = runtime::DeviceKind::cpu,
                                                                   .num_threads = 1})
      : Context(device), base_(base) {}

  kernels::Machine machine() const override {
    return base_.target == program::Target::cpu
               ? target_named("cpu")
               : kernels::gpu(base_.arch, /*sms=*/0, base_.ptx_version);
  }
  program::CompileOptions base_options() override { return base_; }
  // Only the compiler knows the name of a CPU in tables, so no entry matches if the compiler is
  // missing.
  lib::TunedDevice tuned_device() override {
    try {
      return Context::tuned_device();
    } catch (const runtime::Error&) {
      return {};
    }
  }
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    recorded.push_back({program, options});
    return std::make_shared<UnloadedKernel>();
  }

  std::vector<RecordedKernel> recorded;

 private:
  program::CompileOptions base_;
};

class LoadingContext : public lib::Context {
 public:
  using Context::Context;
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    recorded.push_back({program, options, Context::load(program, options)});
    return recorded.back().loaded;
  }

  std::vector<RecordedKernel> recorded;
};

}  // namespace ligerdsl::cli
