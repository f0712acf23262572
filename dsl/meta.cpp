// Meta-parameters as text.
#include "ligerdsl/dsl/meta.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <sstream>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl {
namespace detail {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DTypeInfo& info : kDTypes) names.emplace_back(info.name);  // indexed by DType
  return names;
}

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

int64_t parse_integer(const std::string& field, const std::string& text, int64_t least,
                      int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw Error("error: meta-parameter '" + field + "': expected an integer from " +
                std::to_string(least) + " to " + std::to_string(most) + ", got '" + text + "'");
  }
  return value;
}

double parse_number(const std::string& field, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error("error: meta-parameter '" + field + "': expected a number, got '" + text + "'");
  }
  return value;
}

size_t parse_choice(const std::string& field, const std::string& text,
                    const std::vector<std::string>& choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == text) return i;
  }
  throw Error("error: meta-parameter '" + field + "': expected one of " + join(choices) +
              ", got '" + text + "'");
}

void require_known_fields(const std::string& kernel, const MetaValues& values,
                          const std::vector<MetaField>& fields) {
  std::vector<std::string> names;
  for (const MetaField& field : fields) names.push_back(field.name);
  for (const auto& [name, text] : values) {
    bool known = false;
    for (const std::string& candidate : names) known = known || candidate == name;
    if (!known) {
      throw Error("error: kernel '" + kernel + "' has no meta-parameter '" + name + "'; it has " +
                  (names.empty() ? "none" : join(names)));
    }
  }
}

}  // namespace detail

const char* name(Bits bits) {
  constexpr const char* kNames[] = {"fixed", "same", "row", "batch"};
  return kNames[static_cast<size_t>(bits)];
}

namespace {

// Returns the same text for all spellings of a number: a user writes 0.1, but a float field prints
// as 0.10000000149011612.
std::string canonical(const MetaField& field) {
  const std::string& text = field.value;
  const char* end = text.data() + text.size();
  if (field.type == "int") {
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), end, value);
    return read.ec == std::errc() && read.ptr == end ? std::to_string(value) : text;
  }
  if (field.type != "number") return text;
  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return text;
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded) || (rounded == 0) != (value == 0)) return detail::number_text(value);
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, rounded).ptr};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

std::string tuned_options(const std::vector<MetaField>& fields, const std::string& settings) {
  std::vector<std::string> words = words_of(settings);
  std::erase_if(words,
                [&](const std::string& word) {  // `fields` has these values
                  return std::any_of(fields.begin(), fields.end(), [&](const MetaField& field) {
                    return word.starts_with(field.name + "=");
                  });
                });
  std::sort(words.begin(), words.end());
  for (const MetaField& field : fields) {
    if (field.bits == Bits::fixed) words.push_back(field.name + "=" + canonical(field));
  }
  std::string options;
  for (const std::string& word : words) options += (options.empty() ? "" : " ") + word;
  return options;
}

MetaValues tuned_values(const std::string& config) {
  MetaValues values;
  for (const std::string& word : words_of(config)) {
    const size_t equal = word.find('=');
    if (equal == std::string::npos || equal == 0 ||
        !values.emplace(word.substr(0, equal), word.substr(equal + 1)).second)
      throw Error(
          "error: expected a tuned configuration such as \"block=4096 num_warps=8\", with each "
          "name "
          "once, got '" +
          config + "'");
  }
  return values;
}

}  // namespace ligerdsl
