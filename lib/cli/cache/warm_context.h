// Contexts for `ligerdsl cache warm` and `ligerdsl tune`, whose plans store their kernels in the
// disk cache.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/unloaded_kernel.h"
#include "program/serialize.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compiler_library.h"

namespace ligerdsl::cli {

struct Warmed {
  runtime::Digest key;
  std::string kernel, target;
  runtime::Origin origin;
};

// Context of a device in this machine. Its plans store their kernels in the disk cache.
class WarmContext : public lib::Context {
 public:
  explicit WarmContext(const runtime::DeviceConfig& config) : Context(config) {}

  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    runtime::LoadReport report;
    auto kernel = device().load(program, options, &report);
    note(program, options, report.origin);
    return kernel;
  }

  std::vector<Warmed> warmed;

 protected:
  void note(const std::string& program, const program::CompileOptions& options,
            runtime::Origin origin) {
    warmed.push_back({runtime::KernelCache::key(program, program::serialize(options)),
                      program::parseProgram(program).name, runtime::target_text(options), origin});
  }
};

// Like WarmContext, for a GPU that need not be present. Its plans can never run.
class WarmTarget final : public WarmContext {
 public:
  WarmTarget(const runtime::DeviceConfig& cpu, program::CompileOptions base, int multiprocessors)
      : WarmContext(cpu),
        base_(std::move(base)),
        multiprocessors_(multiprocessors),
        compiler_(cpu.compiler) {}

  kernels::Machine machine() const override {
    return kernels::gpu(base_.arch, multiprocessors_, base_.ptx_version);
  }
  program::CompileOptions base_options() override { return base_; }
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    const auto compile = [&](std::string_view bytes, std::string_view option_bytes) {
      return compiler_->compile(bytes, option_bytes);
    };
    note(program, options,
         runtime::KernelCache::keep(device().disk_cache(), compile, program, options));
    return std::make_shared<UnloadedKernel>();
  }

 private:
  program::CompileOptions base_;
  int multiprocessors_;
  std::shared_ptr<runtime::CompilerLibrary> compiler_;
};

}  // namespace ligerdsl::cli
