// Do two views share memory?
#pragma once

#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::program {

inline constexpr int kMaxViewRank = 8;

// Elements in memory. The arrays are the caller's.
struct Strided {
  const std::byte* data;
  DType dtype;
  int rank;  // at most kMaxViewRank
  const int64_t* dims;
  const int64_t* strides;  // in elements, none negative
};

enum class Overlap : uint8_t {
  none,   // no element in common
  exact,  // same base, sizes and strides: one element is reached through equal indices only
  other   // some elements in common, or that could not be ruled out
};

// Exact for views that reduce to evenly strided rows, as slices of one buffer do; otherwise by address ranges.
Overlap overlap(const Strided& a, const Strided& b);

// Bytes from the first element to the end of the last; 0 for a view without elements.
int64_t span_bytes(const Strided& view);

// True when no element is reached through two different indices.
bool injective(const Strided& view);

}  // namespace ligerdsl::program
