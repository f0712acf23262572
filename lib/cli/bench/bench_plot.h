// Charts of `ligerdsl bench`, drawn by gnuplot.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lib/cli/bench/axis.h"

namespace ligerdsl::cli {

// Throws Failure: kUsage for a file name that does not end in .svg or .png, kNothingFound without
// gnuplot.
void check_plot(const std::string& path);

struct Bar {
  std::string label;
  double value = 0;  // fraction of a copy's bytes per second
  std::string note;  // text after the bar: "131.7 us"
};
// Draws one bar per case, and a line at 1 for the rate of a large copy.
void plot_bars(const std::string& path, const std::string& title, const std::vector<Bar>& bars);

struct Line {
  std::string label;
  std::vector<std::pair<double, double>> points;
};
// Lines over the one number in which cases differ, and a dashed line at `ceiling`, unless it is 0.
struct LinePlot {
  std::string title, x_label, y_label;
  bool logarithmic = false;  // true if the x axis is logarithmic
  double ceiling = 0;
  std::string ceiling_label;
  std::vector<Line> lines;
};
void plot_lines(const std::string& path, const LinePlot& plot);
// Returns true if the first axis can be the x axis: it has two or more values, and all are numbers.
bool is_numeric(const std::vector<Axis>& axes);
// Returns a plot over the first axis, with one line for each combination of the other axes' values.
// `measured` has pairs (index of a case in along(), value).
LinePlot lines_over_axis(const std::vector<Axis>& axes,
                         const std::vector<std::pair<size_t, double>>& measured);

}  // namespace ligerdsl::cli
