// The float64 side of `run --check`: a context whose kernels are interpreted, and the comparison of two results.
#pragma once

#include <string>

#include "lib/src/context.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// A CPU context on which every kernel is the reference interpreter running the program that `machine` would run.
lib::ContextRef interpreter_context(const kernels::Machine& machine);

struct Difference {
  double worst = 0;    // largest |got - expected| over the largest |expected|
  int64_t beyond = 0;  // elements beyond the gate
  int64_t elements = 0;
  int64_t first = -1;            // index of the first beyond the gate
  double got = 0, expected = 0;  // there
};

// Element by element: |got - expected| <= atol * max|expected| + rtol * |expected|, with the dtype's gate; NaN matches
// NaN, infinities their equals, integers exactly.
Difference compare(const std::string& got, const std::string& expected, DType type);
std::string gate_text(DType type);

}  // namespace ligerdsl::cli
