// A measured case of `ligerdsl bench` as a row of its table and of its JSON.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/bench/bench_measure.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

double gbps(const Outcome& o);
double tflops(const Outcome& o);

// Its rate against that of a large copy, and of one of as many bytes.
std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same);
Json json_row(const Outcome& o, double of_copy, double of_same);

}  // namespace ligerdsl::cli
