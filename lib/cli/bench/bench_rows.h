// A measured case as a row of the table and the JSON of `ligerdsl bench`.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

double gbps(const Outcome& o);
double tflops(const Outcome& o);

// `of_copy` and `of_same` are ratios of the case's rate to that of a large copy and of an
// equal-size copy.
std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same);
Json json_row(const Outcome& o, double of_copy, double of_same);

}  // namespace ligerdsl::cli
