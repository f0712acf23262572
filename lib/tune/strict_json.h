// JSON of unknown origin: stores, tables and results of earlier runs.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/text/clipped.h"

namespace ligerdsl::tune {

using Json = nlohmann::ordered_json;

// Error for JSON that a reader does not expect. what() is one short line: the expected item, the
// actual one, and the place.
struct JsonError : std::runtime_error {
  explicit JsonError(const std::string& text, bool ends_early = false)
      : std::runtime_error(text), at_end(ends_early) {}
  bool at_end;  // true if the text is valid up to its end but incomplete
};

// Parses JSON. Throws JsonError for
// - text that is not JSON,
// - a number outside the range of a double,
// - an object with a duplicate name, because readers differ in the value they use, and
// - values nested so deeply that recursion would overflow the stack.
Json parse_strict(std::string_view text);

// Returns a value as JSON text, clipped.
std::string shown(const Json& value);

// Reads members of an object by name and type. For a missing member or another type, throws
// JsonError with the name, the expected type and the value.
class Members {
 public:
  explicit Members(const Json& json);  // throws JsonError if the JSON is not an object

  bool has(const char* name) const { return json_.contains(name); }
  template <class Is>
  const Json& get(const char* name, const char* expected, const Is& is) const {
    const auto found = json_.find(name);
    if (found != json_.end() && is(*found)) return *found;
    throw JsonError(std::string("expected \"") + name + "\" to be " + expected + ", got " +
                    (found == json_.end() ? "none" : shown(*found)));
  }
  std::string text(const char* name) const;
  double number(const char* name) const;    // 0 or positive
  double positive(const char* name) const;  // above 0
  int count(const char* name) const;        // a whole number, 0 or positive

 private:
  const Json& json_;
};

// Returns true for a finite number above 0.
bool is_positive(const Json& value);
// Returns true for a list of finite numbers above 0.
bool are_positive(const Json& value);
bool are_strings(const Json& value);

}  // namespace ligerdsl::tune
