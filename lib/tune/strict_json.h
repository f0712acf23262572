// JSON of unknown origin, as stores, tables and results of earlier runs are.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/text/clipped.h"

namespace ligerdsl::tune {

using Json = nlohmann::ordered_json;

// JSON that is not what a reader expected. what() is one short line for people: what was expected, what came, and where.
struct JsonError : std::runtime_error {
  explicit JsonError(const std::string& text, bool ends_early = false) : std::runtime_error(text), at_end(ends_early) {}
  bool at_end;  // the text stops too early, and nothing before that is wrong
};

// Throws JsonError for text that is not JSON. Also for an object that says a name twice, as readers differ in which one
// counts, and for values nested so deeply that walking them would take the stack.
Json parse_strict(std::string_view text);

// A value as JSON, clipped.
std::string shown(const Json& value);

// Members of an object, by name and type. What is missing or of another type is a JsonError with the name, what it
// should be and what it is.
class Members {
 public:
  explicit Members(const Json& json);  // throws JsonError for what is no object

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

// Finite, and above 0.
bool is_positive(const Json& value);
// A list of such numbers.
bool are_positive(const Json& value);
bool are_strings(const Json& value);

}  // namespace ligerdsl::tune
