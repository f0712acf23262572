// `ligerdsl list`: operations of the library with their settings, and the kernels of --load.
#include <fmt/format.h>

#include "lib/cli/authors.h"
#include "lib/cli/commands.h"
#include "lib/src/op_info.h"

namespace ligerdsl::cli {

namespace {

std::string fields_of(const lib::OpInfo& op) {
  std::string text;
  for (const lib::FieldInfo& field : op.fields) text += (text.empty() ? "" : " ") + std::string(field.name);
  return text;
}

Json json_of(const lib::OpInfo& op) {
  Json tensors = Json::array(), fields = Json::array();
  for (const lib::TensorInfo& tensor : op.tensors) {
    const char* direction = tensor.direction == lib::Direction::in    ? "in"
                            : tensor.direction == lib::Direction::out ? "out"
                                                                      : "inout";
    tensors.push_back({{"name", tensor.name}, {"direction", direction}, {"optional", tensor.given_field >= 0}});
  }
  for (const lib::FieldInfo& field : op.fields) fields.push_back(field.name);
  return {{"name", op.name}, {"brief", op.brief}, {"settings", fields}, {"tensors", tensors}};
}

}  // namespace

int list(const Globals& globals) {
  const AuthorKernels authors(globals.load);
  Json result = {{"operations", Json::array()}, {"loaded", Json::array()}};
  std::vector<std::vector<std::string>> rows;
  for (const lib::OpInfo* op : lib::op_table()) {
    rows.push_back({op->name, op->brief, globals.verbose ? fields_of(*op) : ""});
    result["operations"].push_back(json_of(*op));
  }
  for (const auto& kernel : authors.all()) {
    std::string fields;
    Json values = Json::object();
    for (const MetaField& field : kernel->fields()) {
      fields += fmt::format("{}{}={}", fields.empty() ? "" : " ", field.name, field.value);
      values[field.name] = field.value;
    }
    rows.push_back({kernel->name(), kernel->description() + " (loaded)", fields});
    result["loaded"].push_back({{"name", kernel->name()}, {"brief", kernel->description()}, {"settings", values}});
  }
  if (globals.json != "-") print_table(globals, {"name", "what", "settings"}, rows);
  write_json(globals, result);
  return kOk;
}

}  // namespace ligerdsl::cli
