// Memory layout of an operation's scratch buffers. Plans and test backends create views with it.
//
// Rows are padded to whole 16-byte vectors, so that vector accesses and TMA copies can start at
// each row. Rows of at least one cache line are padded to whole lines. A one-dimensional buffer has
// no padding.
#pragma once

#include <span>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

// Writes the strides, in elements, of a buffer's view with these sizes.
void workspace_strides(DType type, std::span<const int64_t> sizes, int64_t* strides);

// Returns a buffer's bytes, including padding.
Size workspace_bytes(const Scratch& buffer);

}  // namespace ligerdsl::kernels
