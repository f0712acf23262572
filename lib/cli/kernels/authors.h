// Kernels of --load FILE.so, and a call of one of them on a device.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/assumption_word.h"
#include "lib/abi/context.h"
#include "lib/abi/launcher.h"
#include "lib/cli/kernels/author_call.h"

namespace ligerdsl::cli {

class AuthorKernels {
 public:
  // Throws Failure for a file that cannot be loaded or exports no kernels. Also throws if a
  // kernel's name is that of an operation or another loaded kernel, because a name's meaning must
  // not depend on the order of files.
  explicit AuthorKernels(const std::vector<std::string>& files);

  const std::vector<std::unique_ptr<AnyKernel>>& all() const { return kernels_; }
  const AnyKernel* find(const std::string& name) const;  // returns null if unknown
  // Returns the kernel, or null if the name is an operation of the library. Throws Failure (kUsage)
  // for another name.
  const AnyKernel* find_or_op(const std::string& name) const;

 private:
  void add(std::unique_ptr<AnyKernel> kernel, const std::string& file);

  std::vector<std::unique_ptr<AnyKernel>> kernels_;
  std::vector<std::string> files_;  // indexed by kernel
};

// Loads the kernels that a plan of this operation, or ligerdsl_kernel_create for this kernel, would
// load.
void load_kernels(const AuthorKernels& authors, const std::string& kernel,
                  const std::vector<std::string>& settings, const lib::ContextRef& context);

// Device memory for a call, and its launch. The call must outlive it.
class AuthorInstance {
 public:
  // Fills `guard` bytes, a multiple of 256, before and after each argument for broken_guard().
  AuthorInstance(const AuthorCall& call, const lib::ContextRef& context, size_t guard = 0);
  ~AuthorInstance();
  AuthorInstance(const AuthorInstance&) = delete;
  AuthorInstance& operator=(const AuthorInstance&) = delete;

  void launch(runtime::Stream stream) const;
  std::string read(size_t argument) const;
  // Restores all arguments to their initial values, but fills `poisoned` ones with a NaN's bytes.
  void write_initial(const std::vector<bool>& poisoned);
  // Returns the first argument with a changed guard byte, or "".
  std::string broken_guard() const;
  const AuthorCall& call() const { return call_; }
  const lib::Launcher& launcher() const { return *launcher_; }

 private:
  void allocate();

  const AuthorCall& call_;
  lib::ContextRef context_;
  std::vector<lib::BoundTensor> bound_;  // indexed by argument; empty for scalars
  std::vector<void*> memory_;
  std::unique_ptr<lib::AssumptionWord> assumptions_;  // as in ligerdsl_kernel_create
  size_t guard_;
  std::unique_ptr<lib::Launcher> launcher_;
};

}  // namespace ligerdsl::cli
