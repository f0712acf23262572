#include "lib/abi/call_ranges.h"

#include <charconv>
#include <cstdio>

#include "lib/abi/structs.h"

namespace ligerdsl::lib {

namespace {

// Returns the value as text that does not depend on the locale.
std::string text_of(const FieldInfo& field, const void* desc) {
  if (field.type == FieldType::f32) {
    char text[40];
    return {text, std::to_chars(text, text + sizeof text, read_float(desc, field.offset)).ptr};
  }
  const int64_t value = read_integer(desc, field.offset, field.type);
  return field.role == FieldRole::dtype ? dtype_name(value) : std::to_string(value);
}

}  // namespace

std::string range_name(const OpInfo& info, const void* desc) {
  std::string name = info.name;
  for (const FieldInfo& field : info.fields) {
    const std::string value = text_of(field, desc);
    if (value != text_of(field, info.desc_defaults))
      name += std::string(" ") + field.name + "=" + value;
  }
  return name;
}

ExecuteRange::Name::Name(const std::string& name, int64_t rows) {
  snprintf(text, sizeof text, "%s rows=%lld", name.c_str(), static_cast<long long>(rows));
}

ExecuteRange::ExecuteRange(const std::string& name, int64_t rows)
    : name_(name, rows), range_(runtime::RangeKind::execute, name_.text, rows) {}

}  // namespace ligerdsl::lib
