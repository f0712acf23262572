// A context that does not run kernels and matmuls. It checks the arguments of every launch against
// the kernel's promises and the caller's memory. It never dereferences an address, so tensors may
// have any size.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "program/program.h"

namespace ligerdsl::test {

// Addresses [begin, end) that the caller's tensors and workspace permit a launch to access.
struct Memory {
  std::string name;
  uint64_t begin, end;
};

// The memory that launches of this thread may access, and the violations found so far.
struct Expectations {
  std::vector<Memory> allowed;
  std::vector<std::string> violations;
  int launches = 0;
};
Expectations& expectations();

// Records a violation if a heuristic sets a field to a value that is not one of its choices.
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
