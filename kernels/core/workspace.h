// Memory layout of an operation's scratch buffers. Plans make views by it, and so do the tests' backends.
//
// Rows are padded so that each begins where 16-byte accesses and TMA copies may begin: to whole vectors, and to whole
// cache lines if a row fills one or more. A buffer of one dimension has no padding.
#pragma once

#include <span>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

// Writes the strides of a buffer's view of these sizes, in elements.
void workspace_strides(DType type, std::span<const int64_t> sizes, int64_t* strides);

// Bytes that a buffer takes, padding included.
Size workspace_bytes(const Scratch& buffer);

}  // namespace ligerdsl::kernels
