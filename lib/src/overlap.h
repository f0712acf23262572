// Do two tensors share memory?
#pragma once

#include "lib/src/bind.h"

namespace ligerdsl::lib {

enum class Overlap : uint8_t {
  none,   // no element in common
  exact,  // same base, sizes and strides: one element is reached through equal indices only
  other   // some elements in common, or that could not be ruled out
};

// Exact for tensors that reduce to evenly strided rows, as slices of one buffer do; otherwise by address ranges.
Overlap overlap(const BoundTensor& a, const BoundTensor& b);

// Bytes from the first element to the end of the last; 0 for a tensor without elements.
int64_t span_bytes(const BoundTensor& tensor);

// True when no element is reached through two different indices.
bool injective(const BoundTensor& tensor);

}  // namespace ligerdsl::lib
