// Kernels that --load FILE.so brought, and a call of one of them on a device.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/cli/kernels/author_call.h"
#include "lib/src/assumption_word.h"
#include "lib/src/context.h"
#include "lib/src/launcher.h"

namespace ligerdsl::cli {

class AuthorKernels {
 public:
  // Throws Failure for a file that cannot be loaded or exports no kernels, and for a kernel with the name of an
  // operation or of another loaded kernel: which of them a command means must not depend on an order.
  explicit AuthorKernels(const std::vector<std::string>& files);

  const std::vector<std::unique_ptr<AnyKernel>>& all() const { return kernels_; }
  const AnyKernel* find(const std::string& name) const;  // or null
  // The same, and where there is none, an operation of the library has the name; else throws Failure (kUsage).
  const AnyKernel* find_or_op(const std::string& name) const;

 private:
  void add(std::unique_ptr<AnyKernel> kernel, const std::string& file);

  std::vector<std::unique_ptr<AnyKernel>> kernels_;
  std::vector<std::string> files_;  // of the kernels
};

// Loads into the context whatever a plan of this operation, or ligerdsl_kernel_create of this kernel, loads.
void load_kernels(const AuthorKernels& authors, const std::string& kernel, const std::vector<std::string>& settings,
                  const lib::ContextRef& context);

// A call with memory of a device. The call must outlive it.
class AuthorInstance {
 public:
  // `guard` bytes before and behind each argument, a multiple of 256, are filled for broken_guard() to look at.
  AuthorInstance(const AuthorCall& call, const lib::ContextRef& context, size_t guard = 0);
  ~AuthorInstance();
  AuthorInstance(const AuthorInstance&) = delete;
  AuthorInstance& operator=(const AuthorInstance&) = delete;

  void launch(runtime::Stream stream) const;
  std::string read(size_t argument) const;
  // Arguments as before a first launch, but for those that `poisoned` says, which hold a NaN's bytes.
  void write_initial(const std::vector<bool>& poisoned);
  // The first argument with a byte beside it that was written; empty: none.
  std::string broken_guard() const;
  const AuthorCall& call() const { return call_; }
  const lib::Launcher& launcher() const { return *launcher_; }

 private:
  void allocate();

  const AuthorCall& call_;
  lib::ContextRef context_;
  std::vector<lib::BoundTensor> bound_;  // by argument; scalars: empty
  std::vector<void*> memory_;
  std::unique_ptr<lib::AssumptionWord> assumptions_;  // as in ligerdsl_kernel_create
  size_t guard_;
  std::unique_ptr<lib::Launcher> launcher_;
};

}  // namespace ligerdsl::cli
