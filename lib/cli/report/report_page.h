// Page of a tuning report: one HTML file that loads nothing and runs no script.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

// Returns the page. Texts of trials are escaped. `stop` is the descriptor that drawn_by_gnuplot
// takes; throws what that throws.
std::string report_page(const std::vector<tune::TaskSummary>& tasks, int stop = -1);

}  // namespace ligerdsl::cli
