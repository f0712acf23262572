// A measured case as a row of the table and the JSON of `ligerdsl bench`.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

double gbps(const Outcome& o);
double tflops(const Outcome& o);

// `of_copy` is the case's rate / the rate of a large copy; `of_same` is the case's rate / the rate
// of a copy of the same size.
std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same);
Json json_row(const Outcome& o, double of_copy, double of_same);

}  // namespace ligerdsl::cli
