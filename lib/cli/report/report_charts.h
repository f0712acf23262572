// The charts of a tuning report, as SVG for the inside of an HTML page: their texts and axes take the page's colours.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

inline constexpr const char* kBestColour = "#2f7ed8";     // what won, or is best so far
inline constexpr const char* kTrialColour = "#8a8f98";    // what was measured, the heuristic, a copy
inline constexpr const char* kFailureColour = "#d9534f";  // what failed

// How a task's configuration performed on one problem.
struct RooflinePoint {
  const tune::TaskSummary* task;
  std::string problem;
  double bytes = 0, copy_us = 0, heuristic_us = 0, winner_us = 0;
};

struct DrawnChart {
  std::string label;
  int height;
  std::vector<std::string> series;
};

// Each adds a chart to those that are drawn together, by one gnuplot.
class ReportCharts {
 public:
  // Best so far, over configurations tried. Returns the number of the chart.
  size_t add_progress(const tune::TaskSummary& task);
  // The same over seconds of searching.
  size_t add_progress_in_time(const tune::TaskSummary& task);
  // What each field's values took: a row each.
  size_t add_effects(const tune::TaskSummary& task);
  // GB/s over bytes of a call; ceiling: GB/s of a large copy, 0: not known.
  size_t add_roofline(const std::vector<RooflinePoint>& points, double ceiling);

  // By number. `symbols` is what they refer to, once for the page. Throws what drawn_by_gnuplot throws.
  std::vector<std::string> drawn(std::string* symbols, int stop) const;

 private:
  // `series`: what is plotted, in its order.
  size_t begin(const std::string& label, int height, std::vector<std::string> series);

  std::vector<DrawnChart> charts_;
  std::string commands_;
};

}  // namespace ligerdsl::cli
