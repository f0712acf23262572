#include "tests/golden/code.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <string_view>

namespace ligerdsl::test {
namespace {

constexpr std::string_view kLocations[] = {"//",      "#",         ".loc",  ".file",
                                           "$L__tmp", "$L__func_", ".Ltmp", ".Lfunc_"};

}  // namespace

std::string without_locations(const std::string& code, bool ptx) {
  std::istringstream in(code);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    const std::string_view text = std::string_view(line).substr(begin);
    if (ptx && text.starts_with(".section")) break;  // debug information, at the end of the file
    if (std::any_of(std::begin(kLocations), std::end(kLocations),
                    [&](auto what) { return text.starts_with(what); }))
      continue;
    out += line + "\n";
  }
  return out;
}

std::string without_lines(const std::string& remark) {
  static const std::regex place("(?:[^ ]*/)?(kernels|dsl|lib)/([^ :]*):[0-9]+(:[0-9]+)?");
  return std::regex_replace(remark, place, "$1/$2");
}

}  // namespace ligerdsl::test
