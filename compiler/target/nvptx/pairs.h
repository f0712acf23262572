// Vectors of two elements, for instructions that process two at a time.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Returns two elements as a vector if they were extracted from positions 2i and 2i + 1 of one
/// vector, so that no instruction need pack them. Returns null for any other elements.
mlir::Value existingPair(ThreadLowering& t, mlir::Value low, mlir::Value high);

/// Returns two elements as a vector: that of existingPair if it is not null, else a new one.
mlir::Value pairOf(ThreadLowering& t, mlir::Value low, mlir::Value high);

}  // namespace ligerdsl::compiler::nvptx
