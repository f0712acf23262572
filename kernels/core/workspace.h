// Memory layout of an operation's scratch buffers. Plans and the backends of tests create views
// with it.
//
// Rows are padded to whole 16-byte vectors, so that vector accesses and TMA copies can start at
// each row. Rows of a cache line or more are padded to whole lines. A one-dimensional buffer has no
// padding.
#pragma once

#include <span>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

// Writes the strides of a buffer's view of these sizes, in elements.
void workspace_strides(DType type, std::span<const int64_t> sizes, int64_t* strides);

// Bytes that a buffer takes, padding included.
Size workspace_bytes(const Scratch& buffer);

}  // namespace ligerdsl::kernels
