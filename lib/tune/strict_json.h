// JSON of unknown origin, as stores, tables and results of earlier runs are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ligerdsl::tune {

using Json = nlohmann::ordered_json;

// Throws std::exception for text that is no JSON, for an object that says a name twice (readers differ in which one
// counts), and for what is nested so deeply that walking it would take the stack.
Json parse_strict(std::string_view text);

// Finite, and above 0.
bool is_positive(const Json& value);
// A list of such numbers.
bool are_positive(const Json& value);
bool are_strings(const Json& value);

}  // namespace ligerdsl::tune
