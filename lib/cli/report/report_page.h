// Page of a tuning report: one HTML file without external files and scripts.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

// Returns the page; texts of trials are escaped. `stop` is passed to drawn_by_gnuplot. Throws the
// errors of drawn_by_gnuplot.
std::string report_page(const std::vector<tune::TaskSummary>& tasks, int stop = -1);

}  // namespace ligerdsl::cli
