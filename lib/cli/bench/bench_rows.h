// A measured case of `ligerdsl bench` as a row of its table and of its JSON.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

double gbps(const Outcome& o);
double tflops(const Outcome& o);

// `of_copy` and `of_same` are its rate divided by that of a large copy, and of a copy of the same
// size.
std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same);
Json json_row(const Outcome& o, double of_copy, double of_same);

}  // namespace ligerdsl::cli
