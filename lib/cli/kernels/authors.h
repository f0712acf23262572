// Kernels loaded with --load FILE.so, and calls of these kernels on a device.
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
  // kernel's name is that of an operation or another loaded kernel, so that the order of files does
  // not change which kernel a name selects.
  explicit AuthorKernels(const std::vector<std::string>& files);

  const std::vector<std::unique_ptr<AnyKernel>>& all() const { return kernels_; }
  const AnyKernel* find(const std::string& name) const;  // returns null if unknown
  // Returns the kernel with this name, or null for an operation of the library. Throws Failure
  // (kUsage) for an unknown name.
  const AnyKernel* find_or_op(const std::string& name) const;

 private:
  void add(std::unique_ptr<AnyKernel> kernel, const std::string& file);

  std::vector<std::unique_ptr<AnyKernel>> kernels_;
  std::vector<std::string> files_;  // file of each kernel
};

// Loads the kernels that a plan of the operation would load. For a kernel loaded with --load, loads
// the one that ligerdsl_kernel_create would load.
void load_kernels(const AuthorKernels& authors, const std::string& kernel,
                  const std::vector<std::string>& settings, const lib::ContextRef& context);

// Device memory and launcher of a call. The AuthorCall must outlive the object.
class AuthorInstance {
 public:
  // Fills `guard` bytes, a multiple of 256, before and after each argument for broken_guard().
  AuthorInstance(const AuthorCall& call, const lib::ContextRef& context, size_t guard = 0);
  ~AuthorInstance();
  AuthorInstance(const AuthorInstance&) = delete;
  AuthorInstance& operator=(const AuthorInstance&) = delete;

  void launch(runtime::Stream stream) const;
  std::string read(size_t argument) const;
  // Writes the initial values to all arguments, except that `poisoned` arguments are filled with
  // 0xff bytes, which are NaN in floats.
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
  std::unique_ptr<lib::AssumptionWord> assumptions_;  // null if assumptions are not checked
  size_t guard_;
  std::unique_ptr<lib::Launcher> launcher_;
};

}  // namespace ligerdsl::cli
