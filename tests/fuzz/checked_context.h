// A context whose kernels and matmuls do not run. It checks every launch against the kernel's
// promises and the caller's memory. It never dereferences addresses, so tensors may have any size.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "program/program.h"

namespace ligerdsl::test {

// Bytes that a launch may access, from the call's description.
struct Memory {
  std::string name;
  uint64_t begin, end;
};

// Limits for the launches of this thread, and the violations found, as text.
struct Expectations {
  std::vector<Memory> allowed;
  std::vector<std::string> violations;
  int launches = 0;
};
Expectations& expectations();

// Records a violation if a heuristic chooses a value that is not permitted.
class CheckedHeuristics final : public lib::KernelConfigs {
 public:
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;
};

class CheckedContext final : public lib::Context {
 public:
  explicit CheckedContext(program::Target target) : Context({.num_threads = 1}), target_(target) {
    set_kernel_configs(&heuristics_);
  }

  kernels::Machine machine() const override;
  program::CompileOptions base_options() override;
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program_bytes,
                                              const program::CompileOptions& options) override;
  std::shared_ptr<runtime::Matmul> matmul() override;

  std::atomic<int64_t> loads{0};  // number of loaded kernels

 private:
  program::Target target_;
  CheckedHeuristics heuristics_;
};

}  // namespace ligerdsl::test
