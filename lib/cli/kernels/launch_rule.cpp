#include "lib/cli/kernels/launch_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "lib/cli/kernels/generated.h"
#include "lib/cli/kernels/launch_settings.h"
#include "lib/instance/settings.h"
#include "lib/text/nearest.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using Settings = std::map<std::string, std::string>;

// Values that are tried for sizes and numbers without a setting.
constexpr int64_t kOpen[] = {1, 4096, 1 << 20};

// "4096:0..31999" -> "4096"
std::string without_interval(const std::string& text) {
  return text.substr(0, text.find(':'));
}

// Returns a view's shape from its setting, which is a shape or the name of another view. Returns an
// empty shape if the view has no setting.
std::vector<int64_t> given_shape(const Settings& settings, const std::string& name, int depth = 0) {
  const auto found = settings.find(name);
  if (found == settings.end() || found->second.empty() || depth > 1) return {};
  const bool digits = std::isdigit(static_cast<unsigned char>(found->second[0]));
  return digits ? parse_shape(name, without_interval(found->second))
                : given_shape(settings, found->second, depth + 1);
}

// Sets a scalar's value, or a pointer's number of elements.
void set_number(const Settings& settings, const program::Type& type, int64_t open,
                LaunchArguments::Argument* one) {
  const auto given = settings.find(one->name);
  const bool is_given = given != settings.end();
  one->pointer = type.kind == program::TypeKind::ptr;
  if (one->pointer) {
    one->dims = is_given ? parse_shape(one->name, without_interval(given->second))
                         : std::vector<int64_t>{open};
    one->strides.assign(one->dims.size(), 1);
  } else if (is_float(type.dtype)) {
    one->number = is_given ? parse_scalar_real(one->name, type.dtype, given->second)
                           : static_cast<double>(open);
  } else {
    const int64_t stand_in = std::min(open, limits_of(type.dtype).high);
    one->integer = is_given ? parse_scalar_integer(one->name, type.dtype, given->second) : stand_in;
  }
}

LaunchArguments arguments_of(const program::Program& program, const Settings& settings,
                             const Target& target, int64_t open) {
  std::vector<LaunchArguments::Argument> arguments;
  for (const program::Argument& argument : program.arguments) {
    const program::Type& type = program.values[argument.value];
    LaunchArguments::Argument one{.name = argument.name};
    if (type.kind == program::TypeKind::view) {
      one.dims = given_shape(settings, argument.name);
      if (one.dims.empty()) one.dims = type.shape;
      if (one.dims.size() != type.shape.size())
        throw Failure(kUsage, fmt::format("{}: expected {} dimensions, got {}", argument.name,
                                          type.shape.size(), one.dims.size()));
      std::replace(one.dims.begin(), one.dims.end(), program::kDynamic, open);
      one.strides.resize(one.dims.size());
      uint64_t stride = 1;
      for (size_t i = one.strides.size(); i-- > 0; stride *= static_cast<uint64_t>(one.dims[i]))
        one.strides[i] = static_cast<int64_t>(stride);
    } else {
      set_number(settings, type, open, &one);
    }
    arguments.push_back(std::move(one));
  }
  return LaunchArguments(std::move(arguments), target);
}

void require_known(const AnyKernel& kernel, const program::Program& program,
                   const Settings& settings) {
  std::vector<std::string> names;
  for (const MetaField& field : kernel.fields()) names.push_back(field.name);
  for (const program::Argument& argument : program.arguments) names.push_back(argument.name);
  names.insert(names.end(), launch_setting_names().begin(), launch_setting_names().end());
  for (const auto& [name, text] : settings) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Failure(kUsage,
                    fmt::format("{} has no setting '{}'{}; expected one of {}", kernel.name(), name,
                                did_you_mean(name, names), fmt::join(names, ", ")));
  }
}

[[noreturn]] void fail_for_sizes(const AnyKernel& kernel, const program::Program& program,
                                 const Settings& settings, const std::string& why) {
  std::vector<std::string> missing;
  for (const program::Argument& argument : program.arguments) {
    if (!settings.count(argument.name)) missing.push_back(argument.name + "=...");
  }
  throw Failure(
      kUsage,
      fmt::format(
          "the launch rule of {} depends on its arguments{}; pass {}, as for `ligerdsl run`",
          kernel.name(), why, fmt::join(missing, ", ")));
}

}  // namespace

Launch launch_of(const AnyKernel& kernel, const MetaValues& meta, const program::Program& program,
                 Settings settings, const Target& target) {
  const LaunchSettings launch_settings = take_launch_settings(&settings);
  require_known(kernel, program, settings);
  const auto is_given = [&](const program::Argument& argument) {
    return settings.count(argument.name) > 0;
  };
  const bool all_given = std::all_of(program.arguments.begin(), program.arguments.end(), is_given);
  std::optional<Launch> first;
  for (const int64_t open : kOpen) {
    Launch launch;
    try {
      launch = kernel.launch(meta, arguments_of(program, settings, target, open));
    } catch (const Error& error) {
      if (all_given) throw;
      fail_for_sizes(kernel, program, settings, fmt::format(" ({})", error.what()));
    }
    launch.grid = {};
    launch_settings.apply(&launch);
    if (first && *first != launch) fail_for_sizes(kernel, program, settings, "");
    first = launch;
  }
  return *first;
}

}  // namespace ligerdsl::cli
