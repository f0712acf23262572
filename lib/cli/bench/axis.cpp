#include "lib/cli/bench/axis.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/instance/settings.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

constexpr size_t kMostValues = 1000, kMostCombinations = 10000;

// Appends the values of one list element, like "1024:16384*2".
void append_range(const std::string& what, const std::string& text,
                  std::vector<std::string>* values) {
  const size_t colon = text.find(':'), step_at = text.find_first_of("*+", colon + 1);
  if (step_at == std::string::npos)
    throw Failure(kUsage, fmt::format("{}: expected FIRST:LAST*FACTOR or FIRST:LAST+STEP, got '{}'",
                                      what, text));
  const bool factor = text[step_at] == '*';
  const int64_t first = parse_integer(what, text.substr(0, colon), factor ? 1 : 0, kMaxSize),
                last = parse_integer(what, text.substr(colon + 1, step_at - colon - 1), first,
                                     kMaxSize),
                step = parse_integer(what, text.substr(step_at + 1), factor ? 2 : 1, kMaxSize);
  for (int64_t value = first; value <= last; value = factor ? value * step : value + step) {
    values->push_back(fmt::format("{}", value));
    if (values->size() > kMostValues || (factor && value > kMaxSize / step)) break;
  }
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const std::vector<Setting> parsed = parse_settings({text});
  Axis axis{parsed.front().name, {}};
  const std::string what = "--axis " + axis.name, &list = parsed.front().value;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string element = list.substr(begin, end - begin);
    begin = end + 1;
    if (element.empty())
      throw Failure(kUsage, fmt::format("{}: a value is missing in '{}'", what, list));
    if (element.find(':') == std::string::npos)
      axis.values.push_back(element);
    else
      append_range(what, element, &axis.values);
    if (axis.values.size() > kMostValues)
      throw Failure(kUsage, fmt::format("{}: expected at most {} values, got more in '{}'", what,
                                        kMostValues, list));
  }
  return axis;
}

std::vector<std::vector<std::string>> along(const std::vector<std::string>& settings,
                                            const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const std::string& setting : settings) names.push_back(setting.substr(0, setting.find('=')));
  std::vector<std::vector<std::string>> all = {settings};
  for (const Axis& axis : axes) {
    const auto found = std::find(names.begin(), names.end(), axis.name);
    if (found != names.end())
      throw Failure(
          kUsage,
          found - names.begin() < std::ssize(settings)
              ? fmt::format("--axis {0}: also given as the setting {0}=; omit one", axis.name)
              : fmt::format("--axis {}: given twice; omit one", axis.name));
    names.push_back(axis.name);
    if (all.size() * axis.values.size() > kMostCombinations)
      throw Failure(
          kUsage, fmt::format("--axis: expected at most {} combinations of values, got {} or more",
                              kMostCombinations, all.size() * axis.values.size()));
    std::vector<std::vector<std::string>> longer;
    for (const auto& one : all) {
      for (const std::string& value : axis.values) {
        longer.push_back(one);
        longer.back().push_back(axis.name + "=" + value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace ligerdsl::cli
