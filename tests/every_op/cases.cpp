#include "tests/every_op/cases.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "lib/abi/op_info.h"

namespace ligerdsl::test {
namespace {

// The cases of an operation, from its row in kernels/*/*.op.py, with the sizes by letter.
struct Configurations {
  std::string op;
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<std::string> settings;
};

// Returns the cases of all operations. The generated file uses the parameter `rows`.
std::vector<Configurations> configurations(int64_t rows) {
  return {
#include "every_op_cases.inc"
  };
}

// Returns a case with these settings, and the default size for each letter that they do not set.
Case case_of(const Configurations& all, const std::string& settings) {
  Case one{all.op, {}};
  std::istringstream words(settings);
  const std::vector<std::string> given(std::istream_iterator<std::string>(words), {});
  for (const auto& [letter, size] : all.sizes) {
    const bool is_given = std::any_of(given.begin(), given.end(), [&](const std::string& setting) {
      return setting.starts_with(letter + "=");
    });
    if (!is_given) one.settings.push_back(letter + "=" + std::to_string(size));
  }
  one.settings.insert(one.settings.end(), given.begin(), given.end());
  return one;
}

}  // namespace

std::vector<Case> cases(int64_t rows, std::span<const char* const> more) {
  const std::vector<Configurations> all = configurations(rows);
  std::vector<Case> list;
  for (const Configurations& one : all)
    for (const std::string& settings : one.settings) list.push_back(case_of(one, settings));
  for (const std::string text : more) {
    const size_t end = std::min(text.find(' '), text.size());
    const auto found = std::find_if(all.begin(), all.end(), [&](const Configurations& one) {
      return one.op == text.substr(0, end);
    });
    if (found == all.end()) throw std::invalid_argument("no operation has the case " + text);
    list.push_back(case_of(*found, text.substr(end)));
  }
  return list;
}

std::string name_of(const Case& which) {
  std::string name = which.op;
  for (const std::string& setting : which.settings) {
    if (!std::isupper(static_cast<unsigned char>(setting[0]))) name += "_" + setting;
  }
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

std::vector<std::string> operations_without(const std::vector<Case>& list) {
  std::vector<std::string> missing;
  for (const lib::OpInfo* info : lib::op_table()) {
    const auto is_this = [&](const Case& which) { return which.op == info->name; };
    if (std::none_of(list.begin(), list.end(), is_this)) missing.push_back(info->name);
  }
  return missing;
}

}  // namespace ligerdsl::test
