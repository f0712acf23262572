// Finds the row of program/remarks.def from which a remark's text was made, and returns its remedy.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "program/remarks.h"

namespace ligerdsl::program {
namespace {

struct RemarkRow {
  std::string_view text, change;
};

// Indexed by RemarkId.
constexpr auto kRemarks = std::to_array<RemarkRow>({
#define LIGERDSL_REMARK(name, pass, text, cause, change) {text, change},
#include "program/remarks.def"
});

struct ReasonRow {
  std::string_view group, text, change;
};

constexpr auto kReasons = std::to_array<ReasonRow>({
#define LIGERDSL_REASON(group, text, change) {#group, text, change},
#include "program/remarks.def"
});

// Returns the parts of a pattern that are not in braces.
std::vector<std::string_view> literals_of(std::string_view pattern) {
  std::vector<std::string_view> literals;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && depth++ == 0) literals.push_back(pattern.substr(begin, i - begin));
    if (pattern[i] == '}' && --depth == 0) begin = i + 1;
  }
  literals.push_back(pattern.substr(begin));
  return literals;
}

// Returns the number of literal characters if the text has all literals of the pattern in order,
// otherwise 0.
size_t match_length(std::string_view text, std::string_view pattern) {
  size_t at = 0, length = 0;
  for (const std::string_view literal : literals_of(pattern)) {
    at = text.find(literal, at);
    if (at == std::string_view::npos) return 0;
    at += literal.size();
    length += literal.size();
  }
  return length;
}

// Returns true if the pattern "... {R first second} ..." names the group; the table writes "-" for
// the "_" of a group's name.
bool names_group(std::string_view pattern, std::string_view group) {
  const size_t open = pattern.find("{R ");
  if (open == std::string_view::npos) return false;
  std::string groups(pattern.substr(open + 2, pattern.find('}', open) - open - 2));
  for (char& c : groups)
    if (c == '-') c = '_';
  return (groups + " ").find(" " + std::string(group) + " ") != std::string::npos;
}

}  // namespace

std::string remedy_of(const Remark& remark) {
  const auto id = find_remark(remark.id);
  if (!id) return "";
  const RemarkRow& row = kRemarks[static_cast<size_t>(*id)];
  if (row.text.find("{R ") == std::string_view::npos) return std::string(row.change);
  const ReasonRow* best = nullptr;
  size_t longest = 0;
  for (const ReasonRow& reason : kReasons) {
    if (!names_group(row.text, reason.group)) continue;
    const size_t length = match_length(remark.text, reason.text);
    if (length > longest) best = &reason, longest = length;
  }
  return best ? std::string(best->change) : "";
}

std::string text_with_remedy(const Remark& remark) {
  const std::string remedy =
      remark.text.find("; ") == std::string::npos ? remedy_of(remark) : std::string();
  if (remedy.empty()) return to_string(remark);
  Remark complete = remark;
  complete.text += "; remedy: " + remedy;
  return to_string(complete);
}

}  // namespace ligerdsl::program
