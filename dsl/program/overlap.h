// Tests whether two views share memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::program {

inline constexpr int kMaxViewRank = 8;

// A view of elements in memory. The caller owns the arrays.
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
  other   // elements in common, or this could not be ruled out
};

// Compares two views. Exact for views that reduce to evenly strided rows, as slices of one buffer
// do; otherwise compares address ranges.
Overlap overlap(const Strided& a, const Strided& b);

// Returns the bytes from the first element to the end of the last; 0 for a view without elements.
int64_t span_bytes(const Strided& view);

// Returns true if no element is reached through two different indices.
bool injective(const Strided& view);

}  // namespace ligerdsl::program
