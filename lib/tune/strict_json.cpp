#include "lib/tune/strict_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace ligerdsl::tune {

namespace {

// Returns "at column 7", or for a text of several lines "at line 3, column 7".
std::string place_text(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const size_t line_begin =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const std::string column = "column " + std::to_string(before.size() - line_begin + 1);
  if (text.find('\n') == std::string_view::npos) return "at " + column;
  return "at line " + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ", " +
         column;
}

// Shortens the parser's message, which is "[...] parse error at line 1, column 5: syntax error
// while parsing value - unexpected '}'; expected X". Also removes "; last read: '...'", which
// repeats text of the file.
std::string syntax_text(std::string_view text, const Json::parse_error& error) {
  std::string what = error.what();
  if (const size_t at = what.find(" - "); at != std::string::npos) what.erase(0, at + 3);
  if (const size_t read = what.find("; last read: '"); read != std::string::npos) {
    const size_t expected = what.rfind("'; expected ");
    what.erase(read, expected == std::string::npos || expected < read ? std::string::npos
                                                                      : expected + 1 - read);
  }
  constexpr std::string_view kUnexpected = "unexpected ", kExpected = "; expected ";
  if (const size_t at = what.find(kExpected);
      what.starts_with(kUnexpected) && at != std::string::npos)
    what = "expected " + what.substr(at + kExpected.size()) + ", got " +
           what.substr(kUnexpected.size(), at - kUnexpected.size());
  return "expected JSON, got a syntax error " + place_text(text, error.byte) + ": " +
         clipped(what, 120);
}

}  // namespace

std::string shown(const Json& value) {
  return clipped(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Members::Members(const Json& json) : json_(json) {
  if (!json.is_object()) throw JsonError("expected an object, got " + shown(json));
}

std::string Members::text(const char* name) const {
  return get(name, "a string", [](const Json& is) { return is.is_string(); });
}

double Members::number(const char* name) const {
  return get(name, "a number of 0 or more",
             [](const Json& is) { return is == 0 || is_positive(is); });
}

double Members::positive(const char* name) const {
  return get(name, "a number above 0", is_positive);
}

int Members::count(const char* name) const {
  constexpr int kMost = 1 << 30;
  return get(name, "an integer from 0 to 1073741824",
             [](const Json& is) { return is.is_number_integer() && is >= 0 && is <= kMost; });
}

Json parse_strict(std::string_view text) {
  constexpr int kDeepest = 32;
  std::vector<std::set<std::string>> names;  // members seen so far, per enclosing object
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kDeepest)
      throw JsonError("expected lists and objects at most " + std::to_string(kDeepest) +
                      " levels deep, got more");
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      throw JsonError("expected each name once in an object, got " + shown(parsed) + " twice");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), look);
  } catch (const Json::parse_error& error) {
    throw JsonError(syntax_text(text, error), error.byte >= text.size());
  } catch (const Json::out_of_range&) {
    throw JsonError("expected numbers in the range of a double, got a larger one");
  }
}

bool is_positive(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

bool are_positive(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_positive);
}

bool are_strings(const Json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
}

}  // namespace ligerdsl::tune
