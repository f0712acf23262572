// The float64 side of `run --check`: kernels interpreted, and the comparison of two results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cli/author_call.h"
#include "lib/cli/op_oracle.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// What the arguments hold after the launch, in their order, as the reference interpreter computes it; scalars are
// empty. Throws ligerdsl::Error with the author's file and line for an access outside the arguments' memory and
// whatever else the program format leaves undefined.
enum class Rounding : uint8_t { none, every_operation };
std::vector<std::string> interpret(const AuthorCall& call, Rounding rounding);

// Whether the program makes whole numbers from floats: then the last bit of a float decides between neighbours.
bool jumps(const program::Program& program);

struct Difference {
  double worst = 0;    // largest |got - expected| over the largest |expected|
  int64_t beyond = 0;  // elements beyond the gate
  int64_t elements = 0;
  int64_t first = -1;         // index of the first beyond the gate
  std::string got, expected;  // there
  std::string gate;           // in words
};

// Element by element: |got - expected| <= atol * max|expected| + rtol * |expected|, with the dtype's gate; NaN matches
// NaN, infinities their equals, integers exactly. Of several expectations the nearest counts.
Difference compare(const std::string& got, const std::vector<std::string>& expected, DType type);

// The same for values, rounded to the dtype first. Sums over rows: |got - expected| / |expected| of all elements as
// vectors.
Difference compare(const std::string& got, const Expectation& expected, DType type);

}  // namespace ligerdsl::cli
