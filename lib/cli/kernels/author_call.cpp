#include "lib/cli/kernels/author_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "lib/abi/op_info.h"
#include "lib/cli/kernels/launch_settings.h"
#include "lib/instance/settings.h"
#include "lib/text/nearest.h"
#include "lib/text/output.h"
#include "program/aliasing.h"
#include "program/op_info.h"
#include "program/serialize.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::cli {

using program::TypeKind;

namespace {

std::string missing_text(const AuthorArgument& argument) {
  const std::string& name = argument.name;
  std::string how = fmt::format("{}=NUMBER", name);
  if (argument.type.kind == TypeKind::ptr)
    how = fmt::format("{}=ELEMENTS or --in {}=FILE.npy", name, name);
  if (argument.is_view()) {
    std::string shape;
    for (size_t i = 0; i < argument.type.shape.size(); ++i) shape += i ? "x512" : "4096";
    how = fmt::format("{}={}, {}=VIEW for the shape of another view, or --in {}=FILE.npy", name,
                      shape, name, name);
  }
  return fmt::format("\n  {}, {}: {}", name, type_text(argument.type), how);
}

// Fails if the argument's sizes or strides differ from those in the recorded program.
void require_declared(const AuthorArgument& argument) {
  const program::Type& type = argument.type;
  if (type.shape.size() > size_t{lib::kMaxRank})
    throw Failure(kUsage, fmt::format("{}: expected a view of at most {} dimensions, got {}",
                                      argument.name, lib::kMaxRank, type.shape.size()));
  if (argument.shape.size() != type.shape.size())
    throw Failure(kUsage, fmt::format("{}: expected {} dimensions, got {}", argument.name,
                                      type.shape.size(), argument.shape.size()));
  const std::vector<int64_t> strides = strides_of(argument.shape);
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const int64_t size = type.shape[i], stride = type.strides[i];
    if (size != program::kDynamic && size != argument.shape[i])
      throw Failure(
          kUsage,
          fmt::format(
              "{}: expected the size {} in dimension {}, for which the kernel was recorded, got {}",
              argument.name, size, i, argument.shape[i]));
    if (stride != program::kDynamic && stride != strides[i] && argument.shape[i] > 1)
      throw Failure(
          kUsage, fmt::format("{}: the kernel was recorded for a stride of {} in dimension {}; the "
                              "`ligerdsl` command passes contiguous memory, whose stride is {}",
                              argument.name, stride, i, strides[i]));
  }
}

}  // namespace

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

std::string type_text(const program::Type& type) {
  const char* dtype = ligerdsl::name(type.dtype);
  if (type.kind == TypeKind::scalar) return fmt::format("{} scalar", dtype);
  if (type.kind == TypeKind::ptr) return fmt::format("{} pointer", dtype);
  std::vector<std::string> sizes;
  for (const int64_t size : type.shape)
    sizes.push_back(size == program::kDynamic ? "?" : std::to_string(size));
  return fmt::format("{} view [{}]", dtype, fmt::join(sizes, ", "));
}

MetaValues take_meta(const AnyKernel& kernel, const std::vector<std::string>& settings,
                     Settings* rest) {
  MetaValues meta;
  const std::vector<MetaField> fields = kernel.fields();
  for (const auto& [name, value] : parse_settings(settings)) {
    const auto field =
        std::find_if(fields.begin(), fields.end(),
                     [&, &wanted = name](const MetaField& each) { return each.name == wanted; });
    if (field == fields.end()) {
      (*rest)[name] = value;
      continue;
    }
    if (field->type == "enum" && !std::count(field->choices.begin(), field->choices.end(), value))
      throw Failure(kUsage, fmt::format("{}: expected one of {}, got '{}'{}", name,
                                        fmt::join(field->choices, ", "), value,
                                        did_you_mean(value, field->choices)));
    meta[name] = value;
  }
  return meta;
}

std::string AuthorArgument::initial_bytes(uint64_t seed) const {
  if (input) return convert(*input, type.dtype);
  const int64_t n = elements(shape);
  if (written && !has_contents())
    return std::string(static_cast<size_t>(n * size_of(type.dtype)), '\0');
  return generated_bytes(type.dtype, n, seed, interval);
}

AuthorCall::AuthorCall(const AnyKernel& kernel, const std::vector<std::string>& settings,
                       const std::map<std::string, Array>& inputs, const Target& target) {
  Settings rest;
  const MetaValues meta = take_meta(kernel, settings, &rest);
  {
    const runtime::Range range(runtime::RangeKind::record, kernel.name());
    program_ = program::parseProgram(kernel.program_bytes(meta, target));
  }
  hidden_arguments_ = program::isDynamicPersistent(program_) ? 2 : 0;
  const std::vector<bool> written = program::written_arguments(program_);
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const program::Argument& argument = program_.arguments[i];
    arguments_.push_back(
        {.name = argument.name, .type = program_.values[argument.value], .written = written[i]});
  }
  set_arguments(&rest, inputs);
  const LaunchSettings launch_settings = take_launch_settings(&rest);
  require_known(kernel, rest, inputs);

  launch_ = kernel.launch(meta, launch_arguments(target));
  launch_settings.apply(&launch_);
  const auto programs = launch_.programs();
  grid_ = {programs[0], programs[1], programs[2]};
  if (dynamic_persistent()) arguments_[1].integer = grid_.x;
}

LaunchArguments AuthorCall::launch_arguments(const Target& target) const {
  std::vector<LaunchArguments::Argument> list;
  for (const AuthorArgument& argument : arguments_) {
    list.push_back({argument.name, argument.shape, strides_of(argument.shape), argument.number});
    list.back().pointer = argument.type.kind == TypeKind::ptr;
    if (!argument.is_memory() && is_integer(argument.type.dtype))
      list.back().integer = argument.integer;
  }
  return LaunchArguments(std::move(list), target);
}

void AuthorCall::require_arguments(const Settings& settings,
                                   const std::map<std::string, Array>& inputs) const {
  std::string missing;
  size_t count = 0;
  for (size_t i = hidden_arguments_; i < arguments_.size(); ++i) {
    const AuthorArgument& argument = arguments_[i];
    if (settings.count(argument.name) || (argument.is_memory() && inputs.count(argument.name)))
      continue;
    missing += missing_text(argument);
    ++count;
  }
  if (count > 0)
    throw Failure(kUsage, fmt::format("{}: {} argument{} missing:{}", program_.name, count,
                                      count > 1 ? "s are" : " is", missing));
}

void AuthorCall::set_arguments(Settings* settings, const std::map<std::string, Array>& inputs) {
  if (dynamic_persistent())
    arguments_[0].shape = {1};  // next_program; the second argument is the number of programs
  require_arguments(*settings, inputs);
  std::map<std::string, std::string> like;
  for (size_t i = hidden_arguments_; i < arguments_.size(); ++i) {
    AuthorArgument& argument = arguments_[i];
    const auto input = inputs.find(argument.name);
    if (argument.is_memory() && input != inputs.end()) argument.input = &input->second;
    if (argument.is_memory()) {
      set_memory(argument, settings, &like);
      continue;
    }
    const std::string text = settings->at(argument.name);
    if (is_float(argument.type.dtype))
      argument.number = parse_scalar_real(argument.name, argument.type.dtype, text);
    else
      argument.integer = parse_scalar_integer(argument.name, argument.type.dtype, text);
    settings->erase(argument.name);
  }
  for (AuthorArgument& argument : arguments_) {
    if (!like.count(argument.name)) continue;
    const auto other =
        std::find_if(arguments_.begin(), arguments_.end(), [&](const AuthorArgument& each) {
          return each.name == like[argument.name] && each.is_view() && !like.count(each.name);
        });
    if (other == arguments_.end())
      throw Failure(
          kUsage, fmt::format("{}={}: expected a shape like 4096x512, or the name of another view",
                              argument.name, like[argument.name]));
    argument.shape = other->shape;
  }
  for (const AuthorArgument& argument : arguments_) {
    if (argument.is_view()) require_declared(argument);
  }
}

// Sets the shape of a view or pointer from its setting, its file, or both.
void AuthorCall::set_memory(AuthorArgument& argument, Settings* settings,
                            std::map<std::string, std::string>* like) {
  const std::string& name = argument.name;
  if (argument.input) argument.shape = argument.input->shape;
  if (argument.input && !argument.is_view()) argument.shape = {elements(argument.shape)};
  const auto found = settings->find(name);
  if (found == settings->end()) return;
  const size_t colon = found->second.find(':');
  const std::string text = found->second.substr(0, colon);
  if (colon != std::string::npos)
    argument.interval = parse_interval(name, argument.type.dtype, found->second.substr(colon + 1));
  settings->erase(found);
  if (argument.input) {
    if (colon != std::string::npos)
      throw Failure(kUsage, fmt::format("{0}: the values come from --in {0}={1}, so an interval "
                                        "cannot set them; omit the setting {0}={2}:...",
                                        name, argument.input->source, text));
    if (parse_shape(name, text) != argument.shape)
      throw Failure(
          kUsage, fmt::format("{0}: --in {0}={1} has the shape [{2}], but the setting says {3}; "
                              "omit the setting",
                              name, argument.input->source, fmt::join(argument.shape, ", "), text));
  } else if (argument.is_view() && !text.empty() &&
             !std::isdigit(static_cast<unsigned char>(text[0]))) {
    (*like)[name] = text;
  } else {
    argument.shape = parse_shape(name, text);
    if (!argument.is_view() && argument.shape.size() != 1)
      throw Failure(
          kUsage,
          fmt::format("{}: expected the pointer's number of elements, such as 4096, got '{}'", name,
                      text));
  }
}

void AuthorCall::require_known(const AnyKernel& kernel, const Settings& rest,
                               const std::map<std::string, Array>& inputs) const {
  std::vector<std::string> names;
  for (const AuthorArgument& argument : arguments_) names.push_back(argument.name);
  const auto unknown = [&](const char* what, const std::string& name,
                           std::vector<std::string> known) {
    return Failure(
        kUsage, fmt::format("{} has no {} '{}'{}; its arguments are {}", program_.name, what, name,
                            did_you_mean(name, known), fmt::join(names, ", ")));
  };
  std::vector<std::string> settings = names;
  settings.insert(settings.end(), launch_setting_names().begin(), launch_setting_names().end());
  for (const MetaField& field : kernel.fields()) settings.push_back(field.name);
  if (!rest.empty()) throw unknown("setting or argument", rest.begin()->first, settings);
  for (const auto& [name, array] : inputs) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw unknown("argument", name, names);
    if (!arguments_[static_cast<size_t>(found - names.begin())].is_memory())
      throw Failure(kUsage, fmt::format("--in {0}: {0} is a scalar; pass {0}=NUMBER", name));
  }
}

double AuthorCall::bytes_moved() const {
  double bytes = 0;
  for (const AuthorArgument& argument : arguments_) {
    if (argument.is_memory())
      bytes += static_cast<double>(elements(argument.shape) * size_of(argument.type.dtype));
  }
  return bytes;
}

}  // namespace ligerdsl::cli
