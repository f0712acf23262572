// A call of a loaded kernel, before there is a device: its program, its arguments from settings and files, its launch.
//
// Settings, name=value: a meta-parameter; num_warps and the like (launch_settings.h); a view's shape ("y=4096x512"), or
// the view whose shape it has ("y=x"), with the numbers to fill it with behind a colon ("labels=4096:0..31999"); the
// elements behind a pointer ("p=4096"); a scalar's value.
#pragma once

#include <ligerdsl/dsl/kernel.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/kernels/generated.h"
#include "lib/instance/npy.h"
#include "lib/src/launcher.h"
#include "program/program.h"

namespace ligerdsl::cli {

using Settings = std::map<std::string, std::string>;

// Splits settings into meta-parameters and the rest.
MetaValues take_meta(const AnyKernel& kernel, const std::vector<std::string>& settings, Settings* rest);

struct AuthorArgument {
  std::string name;
  program::Type type;
  bool written = false;
  std::vector<int64_t> shape;  // views; of a pointer the number of elements behind it
  int64_t integer = 0;         // scalars of integer types
  double number = 0;           // scalars of float types
  std::optional<Interval> interval;
  const Array* input = nullptr;  // --in

  bool is_memory() const { return type.kind != program::TypeKind::scalar; }
  bool is_view() const { return type.kind == program::TypeKind::view; }
  // By --in or an interval; what is written is 0 without.
  bool has_contents() const { return input || interval; }
  // What is in its memory before the launch.
  std::string initial_bytes(uint64_t seed) const;
};

// "f32 view [?, 4096]", "i32 scalar", "bf16 pointer".
std::string type_text(const program::Type& type);

class AuthorCall {
 public:
  // Recorded for the target. `inputs` must outlive the call. Throws Failure (kUsage) with every argument that is
  // missing.
  AuthorCall(const AnyKernel& kernel, const std::vector<std::string>& settings,
             const std::map<std::string, Array>& inputs, const Target& target);

  const program::Program& program() const { return program_; }
  const std::vector<AuthorArgument>& arguments() const { return arguments_; }
  bool dynamic_persistent() const { return hidden_arguments_ > 0; }
  const runtime::Grid& grid() const { return grid_; }
  const Launch& launch() const { return launch_; }
  // Every view read or written once.
  double bytes_moved() const;

 private:
  void set_arguments(Settings* settings, const std::map<std::string, Array>& inputs);
  void require_arguments(const Settings& settings, const std::map<std::string, Array>& inputs) const;
  void set_memory(AuthorArgument& argument, Settings* settings, std::map<std::string, std::string>* like);
  void require_known(const AnyKernel& kernel, const Settings& rest, const std::map<std::string, Array>& inputs) const;
  LaunchArguments launch_arguments(const Target& target) const;

  program::Program program_;
  std::vector<AuthorArgument> arguments_;
  size_t hidden_arguments_ = 0;  // the first ones, which the tool sets (KernelBuilder::dynamic_persistent)
  runtime::Grid grid_;
  Launch launch_;
};

// Contiguous strides.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);

}  // namespace ligerdsl::cli
