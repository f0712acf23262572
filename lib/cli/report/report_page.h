// Page of a tuning report: one HTML file without external files and scripts.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

// Returns the page, with the trials' texts escaped. `stop`: see drawn_by_gnuplot, whose errors it
// throws.
std::string report_page(const std::vector<tune::TaskSummary>& tasks, int stop = -1);

}  // namespace ligerdsl::cli
