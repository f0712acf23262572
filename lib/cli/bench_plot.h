// A bar chart of `ligerdsl bench` as SVG.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::cli {

struct Bar {
  std::string label;
  double value = 0;  // of a copy
  std::string note;  // behind the bar: "131.7 us"
};

// One bar per case, a line at 1 (a copy of many bytes).
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars);

}  // namespace ligerdsl::cli
