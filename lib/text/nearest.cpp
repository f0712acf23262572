#include "lib/text/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ligerdsl::cli {

namespace {

constexpr size_t kLongest = 64;  // longest compared name in characters, because the time grows with
                                 // the product of both lengths

bool alike(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Returns the optimal string alignment distance of a and b. Keeps only three rows of the table of
// distances.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (alike(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && alike(a[i - 1], b[j - 2]) && alike(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kLongest) return "";
  const std::string* best = nullptr;
  size_t fewest = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t d = distance(name, candidate);
    if (d < fewest) best = &candidate, fewest = d;
  }
  return best ? *best : "";
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string found = nearest(name, candidates);
  return found.empty() ? "" : fmt::format(" (did you mean '{}'?)", found);
}

}  // namespace ligerdsl::cli
