// Tables of a tuning report, as HTML.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/report/report_charts.h"
#include "lib/tune/summary.h"

namespace ligerdsl::cli {

double geometric_mean(const std::vector<double>& values);
std::string device_text(const tune::Trial& trial);  // "NVIDIA H200 (sm_90a, 132 SMs)"
int64_t failed(const tune::TaskSummary& task);  // Returns the number of configurations whose fate
                                                // is neither ok nor slow.

// Links each kernel to the section of its task, "#task-1".
std::string winners_table(const std::vector<tune::TaskSummary>& tasks);
std::string roofline_table(const std::vector<RooflinePoint>& points);
std::string best_table(const tune::TaskSummary& task);
std::string failures_table(const tune::TaskSummary& task);
std::string effects_table(const tune::TaskSummary& task);

}  // namespace ligerdsl::cli
