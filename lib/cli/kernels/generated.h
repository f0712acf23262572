// Numbers for an argument that no file brings: what they may be, and the bytes of many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// Both ends are included. Integers use low and high, floats the real ends.
struct Interval {
  int64_t low = 0, high = 0;
  double real_low = 0, real_high = 0;
};

// The integers of a type.
Interval limits_of(DType type);

// A scalar of the type: an integer of its range, or a number that it holds. Throws Failure (kUsage).
int64_t parse_scalar_integer(const std::string& name, DType type, const std::string& text);
double parse_scalar_real(const std::string& name, DType type, const std::string& text);

// "LOW..HIGH". Throws Failure (kUsage).
Interval parse_interval(const std::string& name, DType type, const std::string& text);

// n numbers of a fixed seed: of the interval, evenly; without one floats are normal and integers 0.
std::string generated_bytes(DType type, int64_t n, uint64_t seed, const std::optional<Interval>& interval);

}  // namespace ligerdsl::cli
