// A context whose kernels and matrix products do not run: every launch is checked against what the kernel was promised and
// what the caller gave it. Addresses are never followed, so tensors may be of any size.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "lib/src/context.h"
#include "program/program.h"

namespace ligerdsl::test {

// Bytes that a launch may touch, from the caller's description of a call.
struct Memory {
  std::string name;
  uint64_t begin, end;
};

// What launches of this thread are held against; violations are collected as text.
struct Expectations {
  std::vector<Memory> allowed;
  std::vector<std::string> violations;
  int launches = 0;
};
Expectations& expectations();

// What a heuristic chooses is a choice that may be made; else a violation.
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

  std::atomic<int64_t> loads{0};  // of kernels

 private:
  program::Target target_;
  CheckedHeuristics heuristics_;
};

}  // namespace ligerdsl::test
