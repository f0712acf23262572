// A device that is not here: plans made on it have their kernels recorded, and can never run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/cli/unloaded_kernel.h"
#include "lib/src/context.h"

namespace ligerdsl::cli {

struct RecordedKernel {
  std::string program;  // bytes
  program::CompileOptions options;
};

// Every kernel comes as its generic variant followed, on a GPU, by the aligned one.
class RecordingContext final : public lib::Context {
 public:
  explicit RecordingContext(const program::CompileOptions& base)
      : Context({.kind = runtime::DeviceKind::cpu, .num_threads = 1}), base_(base) {}

  kernels::Machine machine() const override {
    return base_.target == program::Target::cpu ? target_named("cpu")
                                                : kernels::gpu(base_.arch, /*sms=*/0, base_.ptx_version);
  }
  program::CompileOptions base_options() override { return base_; }
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    recorded.push_back({program, options});
    return std::make_shared<UnloadedKernel>();
  }

  std::vector<RecordedKernel> recorded;

 private:
  program::CompileOptions base_;
};

}  // namespace ligerdsl::cli
