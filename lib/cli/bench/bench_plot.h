// Charts of `ligerdsl bench`, by gnuplot.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lib/cli/bench/axis.h"

namespace ligerdsl::cli {

// Throws Failure (kUsage) for a file that is named neither .svg nor .png, (kNothingFound) where there is no gnuplot.
void check_plot(const std::string& path);

struct Bar {
  std::string label;
  double value = 0;  // of a copy
  std::string note;  // behind the bar: "131.7 us"
};
// One bar per case, a line at 1 (a copy of many bytes).
void plot_bars(const std::string& path, const std::string& title, const std::vector<Bar>& bars);

struct Line {
  std::string label;
  std::vector<std::pair<double, double>> points;
};
// Values of cases that differ in one number, with a dashed line at `ceiling` (0: none).
struct LinePlot {
  std::string title, x_label, y_label;
  bool logarithmic = false;  // x
  double ceiling = 0;
  std::string ceiling_label;
  std::vector<Line> lines;
};
void plot_lines(const std::string& path, const LinePlot& plot);
// Whether the cases of along() are points over the first axis: its values are numbers, and several.
bool is_numeric(const std::vector<Axis>& axes);
// One line for each combination of the other axes' values. `measured`: the number of a case of along(), and its value.
LinePlot lines_over_axis(const std::vector<Axis>& axes, const std::vector<std::pair<size_t, double>>& measured);

}  // namespace ligerdsl::cli
