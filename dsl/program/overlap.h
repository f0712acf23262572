// Tests whether two views share memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::program {

inline constexpr int kMaxViewRank = 8;

// A view of elements in memory. The caller owns the arrays of dimensions and strides.
struct Strided {
  const std::byte* data;
  DType dtype;
  int rank;  // at most kMaxViewRank
  const int64_t* dims;
  const int64_t* strides;  // in elements, none negative
};

enum class Overlap : uint8_t {
  none,   // no element in common
  exact,  // same base, sizes and strides, so the same indices refer to the same element
  other   // elements may be in common
};

// Compares two views. If both consist of evenly spaced rows with the same row stride, such as
// slices of one buffer, it also recognises interleaved rows as disjoint. For other views, only
// disjoint address ranges give `none`.
Overlap overlap(const Strided& a, const Strided& b);

// Returns the bytes from the first element to the end of the last, or 0 for a view without
// elements.
int64_t span_bytes(const Strided& view);

// Returns true if different indices always refer to different elements.
bool injective(const Strided& view);

}  // namespace ligerdsl::program
