#include "program/print.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "program/op_info.h"

namespace ligerdsl::program {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i ? ", " : "") + parts[i];
  return text;
}

std::string sizes(const Shape& shape, const char* squeezed = "0") {
  std::vector<std::string> parts;
  for (int64_t extent : shape) {
    parts.push_back(extent == kDynamic ? "?" : extent == 0 ? squeezed : std::to_string(extent));
  }
  return "[" + join(parts) + "]";
}

std::string numberText(double value) {
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Returns the name at index `number` of a list separated by blanks.
std::string chosen(std::string_view values, int64_t number) {
  for (; number > 0 && !values.empty(); --number)
    values.remove_prefix(std::min(values.find(' '), values.size() - 1) + 1);
  return std::string(values.substr(0, values.find(' ')));
}

std::string attrText(const Attr& attr) {
  const std::string key = attrName(attr.key);
  if (const auto* integer = std::get_if<int64_t>(&attr.value)) {
    const AttrInfo* known = find(attr.key);
    if (known->kind == AttrKind::flag) return *integer ? key : "";
    const std::string name = known->kind == AttrKind::choice ? chosen(known->values, *integer) : "";
    return key + "=" + (name.empty() ? std::to_string(*integer) : name);
  }
  if (const auto* number = std::get_if<double>(&attr.value)) return key + "=" + numberText(*number);
  if (const auto* text = std::get_if<std::string>(&attr.value)) return key + "=" + quoted(*text);
  return key + "=" + sizes(std::get<std::vector<int64_t>>(attr.value), "squeeze");
}

class Printer {
 public:
  Printer(const Program& program, const PrintOptions& options)
      : program_(program), options_(options) {}

  std::string run() {
    std::vector<std::string> arguments;
    for (const Argument& argument : program_.arguments) {
      arguments.push_back("\n    " + value(argument.value) + " " + argument.name + ": " +
                          type(argument.value) + (argument.read_only ? " read_only" : ""));
    }
    text_ = "program " + program_.name + "(" + join(arguments) + ") {\n";
    ops(program_.body, 1);
    return text_ + "}\n";
  }

 private:
  static std::string value(ValueId id) { return "%" + std::to_string(id); }
  std::string type(ValueId id) const {
    return id < program_.values.size() ? print(program_.values[id]) : "?";
  }

  static std::string values(const std::vector<ValueId>& ids) {
    std::vector<std::string> parts;
    for (ValueId id : ids) parts.push_back(value(id));
    return join(parts);
  }

  void ops(const Region& region, int depth) {
    for (const Op& op : region.ops) print(op, depth);
  }

  void print(const Op& op, int depth) {
    const std::string indent(2 * depth, ' ');
    text_ += indent;
    if (!op.results.empty()) text_ += values(op.results) + " = ";
    text_ += opName(op.code);
    if (!op.operands.empty()) text_ += " " + values(op.operands);
    for (const Attr& attr : op.attrs) {
      const std::string word = attrText(attr);
      if (!word.empty()) text_ += " " + word;
    }
    std::vector<std::string> types;
    for (ValueId id : op.results) types.push_back(type(id));
    if (!types.empty()) text_ += " : " + join(types);
    if (op.regions.empty()) {
      text_ += location(op) + "\n";
      return;
    }
    for (size_t i = 0; i < op.regions.size(); ++i) {
      text_ += (i ? indent + "} {" : " {") + regionArguments(op.regions[i]) +
               (i ? "" : location(op)) + "\n";
      ops(op.regions[i], depth + 1);
    }
    text_ += indent + "}\n";
  }

  std::string regionArguments(const Region& region) const {
    std::vector<std::string> parts;
    for (ValueId id : region.arguments) parts.push_back(value(id) + ": " + type(id));
    return parts.empty() ? "" : " (" + join(parts) + ")";
  }

  std::string location(const Op& op) const {
    if (!options_.locations || op.loc.file >= program_.files.size()) return "";
    const std::string& path = program_.files[op.loc.file];
    return "  // " + path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(op.loc.line);
  }

  static std::string print(const Type& type) { return ligerdsl::program::print(type); }

  const Program& program_;
  const PrintOptions& options_;
  std::string text_;
};

}  // namespace

std::string print(const Type& type) {
  const std::string element = name(type.dtype);
  switch (type.kind) {
    case TypeKind::scalar:
      return element;
    case TypeKind::tile:
      return element + sizes(type.shape);
    case TypeKind::view:
      return "view " + element + sizes(type.shape) + " strides " + sizes(type.strides);
    case TypeKind::ptr:
      return "ptr " + element;
    case TypeKind::ptr_tile:
      return "ptr " + element + sizes(type.shape);
  }
  return "?";
}

std::string print(const Program& program, const PrintOptions& options) {
  return Printer(program, options).run();
}

}  // namespace ligerdsl::program
