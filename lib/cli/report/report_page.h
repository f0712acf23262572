// The page of a tuning report: one HTML file that loads nothing and runs no script.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/summary.h"

namespace ligerdsl::cli {

// Whatever the trials hold is text. Throws what drawn_by_gnuplot throws; `stop` is its.
std::string report_page(const std::vector<tune::TaskSummary>& tasks, int stop = -1);

}  // namespace ligerdsl::cli
