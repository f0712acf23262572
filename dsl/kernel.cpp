// Launch rules and their arguments, and the registry.
#include "ligerdsl/dsl/kernel.h"

#include <cmath>
#include <map>

#include "program/gpu_arch.h"

namespace ligerdsl {
namespace detail {

void require_complete(const std::string& name, bool has_build, bool has_launch) {
  if (name.empty()) throw Error("error: a kernel has no name; set Kernel::name");
  if (!has_build)
    throw Error("error: kernel '" + name + "' has no build function; set Kernel::build");
  if (!has_launch)
    throw Error("error: kernel '" + name + "' has no launch rule; set Kernel::launch");
}

void require_distinct_names(const std::string& kernel, const std::vector<MetaField>& fields,
                            const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> taken;  // name -> its owner
  for (const std::string& name : launch_setting_names()) taken[name] = "a launch setting";
  const auto take = [&](const std::string& name, const std::string& what) {
    const auto [other, free] = taken.try_emplace(name, what);
    if (free) return;
    const std::string owner =
        other->second == what ? "another " + what.substr(what.find(' ') + 1) : other->second;
    throw Error("error: kernel '" + kernel + "': " + what + " has the name '" + name + "' of " +
                owner + "; rename it");
  };
  for (const MetaField& field : fields) take(field.name, "a meta-parameter");
  for (const std::string& name : arguments) take(name, "an argument");
}

void require_possible(const std::string& kernel, const Launch& launch) {
  const auto refuse = [&](const std::string& what, int64_t got, const std::string& expected) {
    throw Error("error: kernel '" + kernel + "': its launch rule gives " + what + " = " +
                std::to_string(got) + ", expected " + expected);
  };
  const auto range = [&](const char* what, int got, int least, int most) {
    if (got < least || got > most)
      refuse(what, got, std::to_string(least) + " to " + std::to_string(most));
  };
  const auto power = [&](const char* what, int got, int most) {
    if (got < 1 || got > most || (got & (got - 1)) != 0)
      refuse(what, got, "a power of two from 1 to " + std::to_string(most));
  };
  if (launch.grid.empty() || launch.grid.size() > 3)
    throw Error("error: kernel '" + kernel + "': its launch rule gives a grid with " +
                std::to_string(launch.grid.size()) + " axes, expected 1 to 3");
  for (const Size& axis : launch.grid) {
    const auto is_rows = [](const Size::Node& node) { return node.kind == Size::Kind::rows; };
    if (std::any_of(axis.nodes().begin(), axis.nodes().end(), is_rows))
      throw Error("error: kernel '" + kernel + "': its launch rule gives a grid of " + axis.text() +
                  ", expected a number; use the sizes in LaunchArguments instead of Size::rows()");
  }
  for (const int64_t programs : launch.programs()) {
    if (programs < 0 || programs > INT32_MAX)
      refuse("the size of a grid axis", programs, "0 to 2147483647");
  }
  power("num_warps", launch.num_warps, program::kMaxWarps);
  power("num_ctas", launch.num_ctas, program::kMaxCluster);
  range("num_stages", launch.num_stages, 1, program::kMaxStages);
  if (launch.max_registers != 0 && (launch.max_registers < program::kMinRegisters ||
                                    launch.max_registers > program::kMaxRegisters))
    refuse("max_registers", launch.max_registers, "24 to 255, or 0 for no cap");
  range("min_ctas_per_sm", launch.min_ctas_per_sm, 0, program::kMaxCtasPerSm);
}

}  // namespace detail

const std::vector<std::string>& launch_setting_names() {
  static const auto& names = *new std::vector<std::string>{
      "num_warps", "num_ctas", "num_stages", "max_registers", "min_ctas_per_sm", "no_alias"};
  return names;
}

const LaunchArguments::Argument& LaunchArguments::find(const std::string& name) const {
  for (const Argument& argument : arguments_) {
    if (argument.name == name) return argument;
  }
  std::string names;
  for (const Argument& argument : arguments_) names += (names.empty() ? "" : ", ") + argument.name;
  throw Error("error: launch rule: there is no argument '" + name + "'; the arguments are " +
              (names.empty() ? "none" : names));
}

const LaunchArguments::Argument& LaunchArguments::find_scalar(const std::string& name) const {
  const Argument& argument = find(name);
  if (argument.pointer)
    throw Error("error: launch rule: argument '" + name + "' is a pointer, expected a scalar");
  if (!argument.dims.empty())
    throw Error("error: launch rule: argument '" + name + "' is a view of rank " +
                std::to_string(argument.dims.size()) +
                ", expected a scalar; read its sizes with dim(\"" + name + "\", axis)");
  return argument;
}

namespace {

int64_t at_axis(const std::string& name, const std::vector<int64_t>& values, int axis) {
  const int rank = static_cast<int>(values.size());
  const int at = axis < 0 ? axis + rank : axis;
  if (rank == 0)
    throw Error("error: launch rule: argument '" + name + "' has no dimensions, expected a view");
  if (at < 0 || at >= rank) {
    throw Error("error: launch rule: argument '" + name + "': expected an axis from " +
                std::to_string(-rank) + " to " + std::to_string(rank - 1) + ", got " +
                std::to_string(axis));
  }
  return values[at];
}

}  // namespace

int64_t LaunchArguments::dim(const std::string& view, int axis) const {
  return at_axis(view, find(view).dims, axis);
}
int64_t LaunchArguments::stride(const std::string& view, int axis) const {
  return at_axis(view, find(view).strides, axis);
}
int64_t LaunchArguments::integer(const std::string& scalar) const {
  const Argument& argument = find_scalar(scalar);
  if (argument.integer) return *argument.integer;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  const double value = argument.number;
  if (value >= -kLimit && value < kLimit && value == std::trunc(value))
    return static_cast<int64_t>(value);
  throw Error("error: launch rule: argument '" + scalar + "' is " + detail::number_text(value) +
              ", which is not a 64-bit integer; read it with number()");
}
double LaunchArguments::number(const std::string& scalar) const {
  const Argument& argument = find_scalar(scalar);
  return argument.integer ? static_cast<double>(*argument.integer) : argument.number;
}

const Target& LaunchArguments::target() const {
  if (target_) return *target_;
  throw Error(
      "error: launch rule: the launch has no target; pass a Target to LaunchArguments, or load the "
      "kernel with a newer `ligerdsl`");
}

Registry& Registry::global() {
  static Registry& registry = *new Registry;
  return registry;
}

void Registry::add(std::unique_ptr<AnyKernel> kernel) {
  if (find(kernel->name()))
    throw Error("error: another kernel is registered as '" + kernel->name() + "'; rename one");
  kernels_.push_back(std::move(kernel));
}

const AnyKernel* Registry::find(const std::string& name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name() == name) return kernel.get();
  }
  return nullptr;
}

}  // namespace ligerdsl
