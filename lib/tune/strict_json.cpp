#include "lib/tune/strict_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace ligerdsl::tune {

Json parse_strict(std::string_view text) {
  constexpr int kDeepest = 32;
  std::vector<std::set<std::string>> names;  // of the objects around
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kDeepest)
      throw std::invalid_argument("it is nested more than " + std::to_string(kDeepest) + " levels deep");
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument("it says " + parsed.dump() + " twice");
    return true;
  };
  return Json::parse(text.begin(), text.end(), look);
}

bool is_positive(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

bool are_positive(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_positive);
}

bool are_strings(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
}

}  // namespace ligerdsl::tune
