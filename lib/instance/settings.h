// Settings of the command line, name=value, and the numbers and words that they may hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/src/op_info.h"

namespace ligerdsl::cli {

inline constexpr int64_t kMaxSize = int64_t{1} << 40;  // of one dimension

struct Setting {
  std::string name, value;
  std::string text() const { return name + "=" + value; }
};

// Throws Failure (kUsage) for text without '=', and for a name that is given twice.
std::vector<Setting> parse_settings(const std::vector<std::string>& texts);

// A size: an integer from 0 to kMaxSize. Throws Failure (kUsage).
int64_t parse_size(const Setting& setting);

// Puts a number, or one of the words that this field has (bf16, llama, sum ...), where the field is in a description.
// Throws Failure (kUsage) with what is expected.
void put_field(std::byte* desc, const lib::FieldInfo& field, const Setting& setting);
void put_value(std::byte* args, const lib::ValueInfo& value, const Setting& setting);

// A number that is known to fit.
void put_number(std::byte* base, size_t offset, lib::FieldType type, double value);

// The words that a field may be instead of a number; none: numbers only.
std::vector<std::string> words_for(const lib::FieldInfo& field);

}  // namespace ligerdsl::cli
