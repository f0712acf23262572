// Command-line settings name=value, and the numbers and words that they accept.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/abi/op_info.h"

namespace ligerdsl::cli {

inline constexpr int64_t kMaxSize = int64_t{1} << 40;  // largest size of a dimension

struct Setting {
  std::string name, value;
  std::string text() const { return name + "=" + value; }
};

// Parses settings. Throws Failure (kUsage) for a setting without '=' or a name, and for duplicate
// names.
std::vector<Setting> parse_settings(const std::vector<std::string>& texts);

// Parses a size, an integer from 0 to kMaxSize. Throws Failure (kUsage).
int64_t parse_size(const Setting& setting);

// Stores a number, or one of the field's words (bf16, llama, sum ...), in a descriptor. Throws
// Failure (kUsage) with the expected form.
void put_field(std::byte* desc, const lib::FieldInfo& field, const Setting& setting);
void put_value(std::byte* args, const lib::ValueInfo& value, const Setting& setting);

// Stores a number that the type can hold.
void put_number(std::byte* base, size_t offset, lib::FieldType type, double value);

// Returns the words that a field accepts instead of a number; empty if it accepts only numbers.
std::vector<std::string> words_for(const lib::FieldInfo& field);

}  // namespace ligerdsl::cli
