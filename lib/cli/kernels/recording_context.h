// Contexts that record their plans' kernels: LoadingContext for a present device, and
// RecordingContext for an absent one, whose plans can never run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/unloaded_kernel.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

struct RecordedKernel {
  std::string program;  // the program's bytes
  program::CompileOptions options;
  std::shared_ptr<runtime::LoadedKernel> loaded = nullptr;  // null if the device is not present
};

// Returns the name of each kernel's variant. On a GPU every kernel has all variants
// (kernels::variants_of); on a CPU names are empty.
std::vector<std::string> variant_names(const std::vector<RecordedKernel>& all, bool gpu);

// Returns the kernels of one variant.
std::vector<RecordedKernel> choose_variant(const std::vector<RecordedKernel>& all,
                                           const std::string& variant, bool gpu);

class RecordingContext : public lib::Context {
 public:
  // `device` is a CPU. If the target is a CPU, tables of tuned kernels are searched for `device`.
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
  // Only the compiler knows a CPU's name in tables, so without a compiler no entry matches.
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
