#include "lib/abi/warm_line.h"

#include <charconv>

#include "lib/abi/structs.h"

namespace ligerdsl::lib {

namespace {

// Returns a text that does not depend on the locale and parses to the same number.
std::string text_of(float value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string target_of(Context& context) {
  const kernels::Machine machine = context.machine();
  if (!machine.is_gpu()) return R"("target": "cpu")";
  const program::CompileOptions options = context.base_options();
  return R"("target": ")" + options.arch + R"(", "ptx": ")" +
         std::to_string(options.ptx_version / 10) + "." + std::to_string(options.ptx_version % 10) +
         R"(", "multiprocessors": )" + std::to_string(machine.sms);
}

}  // namespace

std::string warm_line(const OpInfo& info, const void* desc, Context& context) {
  std::string line = std::string(R"({"operation": ")") + info.name + R"(", )" + target_of(context);
  for (const FieldInfo& field : info.fields) {
    line += std::string(R"(, ")") + field.name + R"(": )";
    if (field.type == FieldType::f32) {
      line += text_of(read_float(desc, field.offset));
    } else if (const int64_t value = read_integer(desc, field.offset, field.type);
               field.role == FieldRole::dtype) {
      line += '"' + dtype_name(value) + '"';
    } else {
      line += std::to_string(value);
    }
  }
  return line + "}";
}

}  // namespace ligerdsl::lib
