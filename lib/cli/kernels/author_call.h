// A call to a kernel loaded with --load, before it needs a device: program, arguments from settings
// and files, and launch.
//
// Settings, name=value:
// - a meta-parameter,
// - a launch setting, num_warps and others (launch_settings.h),
// - a view's shape ("y=4096x512") or the name of a view with the same shape ("y=x"), optionally
//   with a colon and an interval for its values ("labels=4096:0..31999"),
// - a pointer's number of elements ("p=4096"),
// - a scalar's value.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/abi/launcher.h"
#include "lib/cli/kernels/generated.h"
#include "lib/instance/npy.h"
#include "program/program.h"

namespace ligerdsl::cli {

using Settings = std::map<std::string, std::string>;

// Returns the settings that are meta-parameters of the kernel, and stores the other settings in
// `rest`.
MetaValues take_meta(const AnyKernel& kernel, const std::vector<std::string>& settings,
                     Settings* rest);

struct AuthorArgument {
  std::string name;
  program::Type type;
  bool written = false;
  std::vector<int64_t> shape;  // shape of a view, or a pointer's number of elements
  int64_t integer = 0;         // value of an integer scalar
  double number = 0;           // value of a float scalar
  std::optional<Interval> interval;
  const Array* input = nullptr;  // array of --in, or null

  bool is_memory() const { return type.kind != program::TypeKind::scalar; }
  bool is_view() const { return type.kind == program::TypeKind::view; }
  // Returns true if --in or an interval gives the initial values. If false, memory that the kernel
  // writes is initially 0.
  bool has_contents() const { return input || interval; }
  // Returns the argument's bytes before the launch.
  std::string initial_bytes(uint64_t seed) const;
};

// Returns the type as text: "f32 view [?, 4096]", "i32 scalar", "bf16 pointer".
std::string type_text(const program::Type& type);

class AuthorCall {
 public:
  // Records the kernel for the target. `inputs` must outlive the call. Throws Failure (kUsage) with
  // all missing arguments.
  AuthorCall(const AnyKernel& kernel, const std::vector<std::string>& settings,
             const std::map<std::string, Array>& inputs, const Target& target);

  const program::Program& program() const { return program_; }
  const std::vector<AuthorArgument>& arguments() const { return arguments_; }
  bool dynamic_persistent() const { return hidden_arguments_ > 0; }
  const runtime::Grid& grid() const { return grid_; }
  const Launch& launch() const { return launch_; }
  // Returns the sum of the sizes of all views and pointers, in bytes.
  double bytes_moved() const;

 private:
  void set_arguments(Settings* settings, const std::map<std::string, Array>& inputs);
  void require_arguments(const Settings& settings,
                         const std::map<std::string, Array>& inputs) const;
  void set_memory(AuthorArgument& argument, Settings* settings,
                  std::map<std::string, std::string>* like);
  void require_known(const AnyKernel& kernel, const Settings& rest,
                     const std::map<std::string, Array>& inputs) const;
  LaunchArguments launch_arguments(const Target& target) const;

  program::Program program_;
  std::vector<AuthorArgument> arguments_;
  size_t hidden_arguments_ =
      0;  // number of leading arguments that the command sets (KernelBuilder::dynamic_persistent)
  runtime::Grid grid_;
  Launch launch_;
};

// Returns the strides of a contiguous tensor.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);

}  // namespace ligerdsl::cli
