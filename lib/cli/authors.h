// Kernels that --load FILE.so brought, and one of them with arguments.
//
// Settings of an author's kernel, name=value: a meta-parameter; a view's shape ("y=4096x512") or the view whose shape
// it has
// ("y=x"); a scalar argument's value.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/cli/npy.h"
#include "lib/cli/output.h"
#include "lib/src/context.h"
#include "lib/src/launcher.h"
#include "program/program.h"

namespace ligerdsl::cli {

class AuthorKernels {
 public:
  // Throws Failure for a file that cannot be loaded or exports no kernels.
  explicit AuthorKernels(const std::vector<std::string>& files);

  const std::vector<std::unique_ptr<AnyKernel>>& all() const { return kernels_; }
  const AnyKernel* find(const std::string& name) const;  // or null

 private:
  std::vector<std::unique_ptr<AnyKernel>> kernels_;
};

// Splits settings into meta-parameters and the rest.
MetaValues take_meta(const AnyKernel& kernel, const std::vector<std::string>& settings,
                     std::map<std::string, std::string>* rest);

// Loads into the context whatever a plan of this operation, or ligerdsl_kernel_create of this kernel, loads.
void load_kernels(const AuthorKernels& authors, const std::string& kernel, const std::vector<std::string>& settings,
                  const lib::ContextRef& context);

class AuthorInstance {
 public:
  AuthorInstance(const AnyKernel& kernel, const std::vector<std::string>& settings,
                 const std::map<std::string, Array>& inputs, const lib::ContextRef& context);
  ~AuthorInstance();
  AuthorInstance(const AuthorInstance&) = delete;
  AuthorInstance& operator=(const AuthorInstance&) = delete;

  struct Argument {
    std::string name;
    program::Type type;
    std::vector<int64_t> shape;  // views
    double number = 0;           // scalars
    bool written = false;
    lib::BoundTensor bound{};
  };

  void launch(runtime::Stream stream) const;
  std::string read(const Argument& argument) const;
  const std::vector<Argument>& arguments() const { return arguments_; }
  const program::Program& program() const { return program_; }
  const runtime::Grid& grid() const { return grid_; }
  lib::Launcher& launcher() { return *launcher_; }
  double bytes_moved() const;

 private:
  void set_arguments(std::map<std::string, std::string> rest, const std::map<std::string, Array>& inputs);
  void allocate(const std::map<std::string, Array>& inputs);

  lib::ContextRef context_;
  program::Program program_;
  std::vector<Argument> arguments_;
  size_t ticket_arguments_ = 0;  // the first ones, which the tool sets (KernelBuilder::by_tickets)
  std::vector<void*> memory_;
  std::unique_ptr<lib::Launcher> launcher_;
  runtime::Grid grid_;
};

}  // namespace ligerdsl::cli
