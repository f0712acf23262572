#include "lib/instance/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using lib::FieldInfo;
using lib::FieldRole;
using lib::FieldType;
using Words = std::map<std::string, int64_t>;

const Words kDtypes = {{"f32", LIGERDSL_F32},       {"f16", LIGERDSL_F16},
                       {"bf16", LIGERDSL_BF16},     {"i32", LIGERDSL_I32},
                       {"i64", LIGERDSL_I64},       {"f8e4m3", LIGERDSL_F8E4M3},
                       {"f8e5m2", LIGERDSL_F8E5M2}, {"none", 0}};
const Words kFlags = {{"true", 1}, {"false", 0}};
// Words that an option accepts, by the option's name.
const std::map<std::string, Words> kWords = {
#include "option_words.inc"
};

const Words& words_of(const FieldInfo& field) {
  static const Words none;
  if (field.role == FieldRole::dtype) return kDtypes;
  const auto found = kWords.find(field.name);
  if (found != kWords.end()) return found->second;
  return field.type == FieldType::i32 && field.range.low == 0 && field.range.high == 1 ? kFlags
                                                                                       : none;
}

template <class T>
void store(std::byte* base, size_t offset, T value) {
  std::memcpy(base + offset, &value, sizeof value);
}

template <class T>
int64_t integer(const Setting& setting) {
  return parse_integer(setting.name, setting.value, std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max());
}

void put(std::byte* base, size_t offset, FieldType type, const Setting& setting) {
  if (type == FieldType::i32)
    return store(base, offset, static_cast<int32_t>(integer<int32_t>(setting)));
  if (type == FieldType::i64) return store(base, offset, integer<int64_t>(setting));
  const double value = parse_real(setting.name, setting.value);
  const auto rounded = static_cast<float>(value);
  if (std::isinf(rounded) && std::isfinite(value))
    throw Failure(kUsage, fmt::format("{}: expected a number in the range of f32, got '{}'",
                                      setting.name, setting.value));
  store(base, offset, rounded);
}

}  // namespace

std::vector<Setting> parse_settings(const std::vector<std::string>& texts) {
  std::vector<Setting> settings;
  std::set<std::string> given;
  for (const std::string& text : texts) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      throw Failure(kUsage, fmt::format("'{}': expected name=value", text));
    settings.push_back({text.substr(0, equal), text.substr(equal + 1)});
    if (!given.insert(settings.back().name).second)
      throw Failure(kUsage, fmt::format("{}: given twice; the second time as '{}'",
                                        settings.back().name, text));
  }
  return settings;
}

int64_t parse_size(const Setting& setting) {
  return parse_integer(setting.name, setting.value, 0, kMaxSize);
}

void put_field(std::byte* desc, const FieldInfo& field, const Setting& setting) {
  const Words& words = words_of(field);
  const auto word = words.find(setting.value);
  if (word != words.end())
    return put_number(desc, field.offset, field.type, static_cast<double>(word->second));
  if (words.empty() || setting.value.find_first_not_of("+-0123456789.") == std::string::npos)
    return put(desc, field.offset, field.type, setting);
  const std::vector<std::string> names = words_for(field);
  throw Failure(kUsage, fmt::format("{}: expected one of {} or its number, got '{}'{}",
                                    setting.name, fmt::join(names, ", "), setting.value,
                                    did_you_mean(setting.value, names)));
}

std::vector<std::string> words_for(const FieldInfo& field) {
  std::vector<std::string> names;
  for (const auto& [name, number] : words_of(field)) names.push_back(name);
  return names;
}

void put_value(std::byte* args, const lib::ValueInfo& value, const Setting& setting) {
  put(args, value.offset, value.type, setting);
}

void put_number(std::byte* base, size_t offset, FieldType type, double value) {
  if (type == FieldType::f32) store(base, offset, static_cast<float>(value));
  if (type == FieldType::i32) store(base, offset, static_cast<int32_t>(value));
  if (type == FieldType::i64) store(base, offset, static_cast<int64_t>(value));
}

}  // namespace ligerdsl::cli
