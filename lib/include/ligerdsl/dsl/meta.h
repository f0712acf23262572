// Meta-parameters: a plain aggregate that lists its fields by name, so that tools can show and set
// them as text.
//
//   enum class Casting { llama, gemma, none };
//   struct RmsNormMeta {
//     DType type = bf16;
//     Casting casting = Casting::llama;
//     int64_t block = 4096;
//     int rows = 1;
//     template <class V>
//     void visit(V&& v) {
//       v("type", type);
//       v("casting", casting, {"llama", "gemma", "none"});  // enumerators 0, 1, 2
//       v("block", block);
//       v("rows", rows, choices({1, 2, 4}), Bits::row);  // a tuner may try 1, 2 and 4
//     }
//   };
#ifndef LIGERDSL_DSL_META_H_
#define LIGERDSL_DSL_META_H_

#include <concepts>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl {

// Effect on a kernel's results if a field gets another value.
enum class Bits {
  fixed,  // different results: the field is not part of the schedule
  same,   // equal results, bit by bit
  row,    // different last bits within a row: another order of summation
  batch,  // like `row`; last bits of sums over rows differ, too
};
const char* name(Bits bits);  // such as "same"

// Accepted values of an integer field.
struct Choices {
  std::vector<int64_t> values;
};
inline Choices choices(std::initializer_list<int64_t> values) {
  return {values};
}
inline Choices powers_of_two(int64_t least, int64_t most) {
  Choices powers;
  for (int64_t n = least < 1 ? 1 : least; n <= most; n *= 2) {
    powers.values.push_back(n);
    if (n > most / 2) break;
  }
  return powers;
}

struct MetaField {
  std::string name;
  std::string type;                  // "int", "bool", "number", "dtype" or "enum"
  std::string value;                 // as text
  std::vector<std::string> choices;  // accepted values; empty for an unlimited set
  Bits bits = Bits::fixed;
};

using MetaValues = std::map<std::string, std::string>;  // field -> text

namespace detail {

template <class E>
concept Enum = std::is_enum_v<E>;

std::vector<std::string> dtype_names();
std::string number_text(double value);
// These throw ligerdsl::Error with the field, the text and the accepted values.
int64_t parse_integer(const std::string& field, const std::string& text, int64_t least,
                      int64_t most);
double parse_number(const std::string& field, const std::string& text);
size_t parse_choice(const std::string& field, const std::string& text,
                    const std::vector<std::string>& choices);
void require_known_fields(const std::string& kernel, const MetaValues& values,
                          const std::vector<MetaField>& fields);

// Lists the fields with their current values.
struct MetaReader {
  std::vector<MetaField> fields;

  void operator()(const char* name, bool& value) {
    fields.push_back({name, "bool", value ? "true" : "false", {"false", "true"}});
  }
  void operator()(const char* name, std::integral auto& value) {
    fields.push_back({name, "int", std::to_string(value), {}});
  }
  void operator()(const char* name, std::floating_point auto& value) {
    fields.push_back({name, "number", number_text(value), {}});
  }
  void operator()(const char* name, DType& value) {
    fields.push_back({name, "dtype", ligerdsl::name(value), dtype_names()});
  }
  void operator()(const char* name, Enum auto& value, std::initializer_list<const char*> names) {
    std::vector<std::string> choices(names.begin(), names.end());
    const auto index = static_cast<size_t>(value);
    const std::string text = index < choices.size() ? choices[index] : std::to_string(index);
    fields.push_back({name, "enum", text, std::move(choices)});
  }
  void operator()(const char* name, std::integral auto& value, const Choices& choices, Bits bits) {
    std::vector<std::string> texts;
    for (int64_t choice : choices.values) texts.push_back(std::to_string(choice));
    fields.push_back({name, "int", std::to_string(value), std::move(texts), bits});
  }
  void operator()(const char* name, bool& value, Bits bits) {
    (*this)(name, value);
    fields.back().bits = bits;
  }
  void operator()(const char* name, Enum auto& value, std::initializer_list<const char*> names,
                  Bits bits) {
    (*this)(name, value, names);
    fields.back().bits = bits;
  }
};

// Sets the fields named in `values`; others keep their value.
struct MetaWriter {
  const MetaValues& values;

  const std::string* find(const char* name) const {
    const auto entry = values.find(name);
    return entry == values.end() ? nullptr : &entry->second;
  }
  void operator()(const char* name, bool& value) {
    if (const std::string* text = find(name))
      value = parse_choice(name, *text, {"false", "true"}) == 1;
  }
  template <std::integral T>
  void operator()(const char* name, T& value) {
    constexpr int64_t most =
        sizeof(T) < 8 ? static_cast<int64_t>(std::numeric_limits<T>::max()) : INT64_MAX;
    constexpr int64_t least =
        std::is_signed_v<T> ? static_cast<int64_t>(std::numeric_limits<T>::min()) : 0;
    if (const std::string* text = find(name))
      value = static_cast<T>(parse_integer(name, *text, least, most));
  }
  void operator()(const char* name, std::floating_point auto& value) {
    if (const std::string* text = find(name)) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(parse_number(name, *text));
    }
  }
  void operator()(const char* name, DType& value) {
    if (const std::string* text = find(name))
      value = static_cast<DType>(parse_choice(name, *text, dtype_names()));
  }
  template <Enum E>
  void operator()(const char* name, E& value, std::initializer_list<const char*> names) {
    if (const std::string* text = find(name)) {
      value = static_cast<E>(
          parse_choice(name, *text, std::vector<std::string>(names.begin(), names.end())));
    }
  }
  template <std::integral T>
  void operator()(const char* name, T& value, const Choices& choices, Bits) {
    const std::string* text = find(name);
    if (!text) return;
    std::vector<std::string> texts;
    for (int64_t choice : choices.values) texts.push_back(std::to_string(choice));
    value = static_cast<T>(choices.values[parse_choice(name, *text, texts)]);
  }
  void operator()(const char* name, bool& value, Bits) { (*this)(name, value); }
  template <Enum E>
  void operator()(const char* name, E& value, std::initializer_list<const char*> names, Bits) {
    (*this)(name, value, names);
  }
};

}  // namespace detail

// Returns the fields of a meta struct with their values.
template <class Meta>
std::vector<MetaField> meta_fields(Meta meta) {
  detail::MetaReader reader;
  meta.visit(reader);
  return std::move(reader.fields);
}

// Returns `meta` with the given fields set. Throws ligerdsl::Error for an unknown field or value.
template <class Meta>
Meta meta_from(const std::string& kernel, const MetaValues& values, Meta meta = {}) {
  detail::require_known_fields(kernel, values, meta_fields(meta));
  meta.visit(detail::MetaWriter{values});
  return meta;
}

// Returns the text that identifies a call in a table of tuned kernels. It has the settings
// ("x=8192x4096 y=x", in any order) and the fields with Bits::fixed.
std::string tuned_options(const std::vector<MetaField>& fields, const std::string& settings);
// Returns the fields of a configuration such as "block=4096 num_warps=8". Throws ligerdsl::Error
// for other text.
MetaValues tuned_values(const std::string& config);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_META_H_
