// Charts of a tuning report, as SVG inside an HTML page. Texts and axes have the colours of the
// page's style.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

inline constexpr const char* kBestColour = "#2f7ed8";     // winners, best so far
inline constexpr const char* kTrialColour = "#8a8f98";    // measured trials, the heuristic, copies
inline constexpr const char* kFailureColour = "#d9534f";  // failed trials

// Times of a task's heuristic and winner on one problem, and of a copy of its bytes.
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

// Each function adds a chart. One gnuplot process draws all of them.
class ReportCharts {
 public:
  // The x axis is the number of tried configurations, the y axis the best time so far. Each add
  // function returns the chart's number.
  size_t add_progress(const tune::TaskSummary& task);
  // The x axis is the seconds of the search, the y axis the best time so far.
  size_t add_progress_in_time(const tune::TaskSummary& task);
  // Times for each value of each field, with one row per value.
  size_t add_effects(const tune::TaskSummary& task);
  // The x axis is the bytes of a call, the y axis GB/s. `ceiling` is the GB/s of a large copy, or 0
  // if unknown.
  size_t add_roofline(const std::vector<RooflinePoint>& points, double ceiling);

  // Returns the charts as SVG, by number. Stores the SVG definitions that the charts share in
  // `symbols`. Throws the errors of drawn_by_gnuplot.
  std::vector<std::string> drawn(std::string* symbols, int stop) const;

 private:
  // `series` names the plots in order.
  size_t begin(const std::string& label, int height, std::vector<std::string> series);

  std::vector<DrawnChart> charts_;
  std::string commands_;
};

}  // namespace ligerdsl::cli
