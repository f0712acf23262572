// `ligerdsl list` prints operations of the library with their settings, and kernels loaded with
// --load with their arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "lib/abi/op_info.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/launch_settings.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "program/aliasing.h"
#include "program/op_info.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string fields_of(const lib::OpInfo& op) {
  std::string text;
  for (const lib::FieldInfo& field : op.fields)
    text += fmt::format("{}{}", text.empty() ? "" : " ", field.name);
  return text;
}

Json json_of(const lib::OpInfo& op) {
  Json tensors = Json::array(), fields = Json::array();
  for (const lib::TensorInfo& tensor : op.tensors) {
    const char* direction = tensor.direction == lib::Direction::in    ? "in"
                            : tensor.direction == lib::Direction::out ? "out"
                                                                      : "inout";
    tensors.push_back(
        {{"name", tensor.name}, {"direction", direction}, {"optional", tensor.given_field >= 0}});
  }
  for (const lib::FieldInfo& field : op.fields) fields.push_back(field.name);
  return {{"name", op.name}, {"brief", op.brief}, {"settings", fields}, {"tensors", tensors}};
}

// Returns the arguments that a caller passes. The program is recorded for --device with default
// meta-parameters.
Json arguments_of(const program::Program& program) {
  Json arguments = Json::array();
  const std::vector<bool> written = program::written_arguments(program);
  for (size_t i = program::isDynamicPersistent(program) ? 2 : 0; i < program.arguments.size();
       ++i) {
    const program::Type& type = program.values[program.arguments[i].value];
    Json entry = {{"name", program.arguments[i].name},
                  {"dtype", name(type.dtype)},
                  {"written", bool{written[i]}}};
    const bool view = type.kind == program::TypeKind::view;
    entry["kind"] = view ? "view" : type.kind == program::TypeKind::ptr ? "pointer" : "scalar";
    entry["text"] = type_text(type);
    if (view) entry["rank"] = type.shape.size(), entry["dims"] = Json::array();
    for (const int64_t size : type.shape)
      entry["dims"].push_back(size == program::kDynamic ? Json() : Json(size));
    arguments.push_back(entry);
  }
  return arguments;
}

Json json_of(const AnyKernel& kernel, const Target& target) {
  Json settings = Json::array();
  for (const MetaField& field : kernel.fields()) {
    settings.push_back({{"name", field.name}, {"type", field.type}, {"default", field.value}});
    if (!field.choices.empty()) settings.back()["choices"] = field.choices;
    if (field.bits != Bits::fixed) settings.back()["changes"] = name(field.bits);
  }
  Json result = {{"name", kernel.name()},
                 {"brief", kernel.description()},
                 {"settings", settings},
                 {"launch_settings", launch_setting_names()}};
  try {
    result["arguments"] = arguments_of(program::parseProgram(kernel.program_bytes({}, target)));
  } catch (const std::exception& error) {  // the kernel rejects its default meta-parameters
    result["arguments"] = nullptr;
    result["problem"] = error.what();
  }
  return result;
}

std::string settings_text(const Json& kernel) {
  std::string text;
  for (const Json& field : kernel["settings"])
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", field["name"].get<std::string>(),
                        field["default"].get<std::string>());
  return text;
}

void add_argument_rows(const Json& kernel, Rows* rows) {
  const std::string name = kernel["name"].get<std::string>();
  if (kernel.contains("problem"))
    rows->push_back({name, "?", kernel["problem"].get<std::string>()});
  for (const Json& argument : kernel["arguments"])
    rows->push_back({name, argument["name"].get<std::string>(),
                     argument["text"].get<std::string>() +
                         (argument["written"].get<bool>() ? ", written" : "")});
}

}  // namespace

int list(const Globals& globals) {
  const AuthorKernels authors(globals.load);
  Json result = {{"operations", Json::array()}, {"loaded", Json::array()}};
  Rows rows, arguments;
  for (const lib::OpInfo* op : lib::op_table()) {
    rows.push_back({op->name, op->brief, globals.verbose ? fields_of(*op) : ""});
    result["operations"].push_back(json_of(*op));
  }
  for (const auto& kernel : authors.all()) {
    const Json loaded = json_of(*kernel, target_of(globals));
    rows.push_back({kernel->name(), kernel->description() + " (loaded)", settings_text(loaded)});
    add_argument_rows(loaded, &arguments);
    result["loaded"].push_back(loaded);
  }
  if (globals.json != "-") print_table(globals, {"name", "description", "settings"}, rows);
  if (globals.json != "-" && !authors.all().empty()) {
    print_text("\n");
    print_table(globals, {"loaded", "argument", "type with the default settings"}, arguments);
    if (globals.verbose)
      print_text(fmt::format("\nLaunch settings of every loaded kernel: {}\n",
                             fmt::join(launch_setting_names(), " ")));
  }
  write_json(globals, result);
  return kOk;
}

}  // namespace ligerdsl::cli
