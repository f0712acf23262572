// Vectors of two elements, for instructions that process two at a time.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Returns two elements as a vector, without packing them, if they were extracted from positions 2i
/// and 2i + 1 of one vector. Returns null for any other elements.
mlir::Value existingPair(ThreadLowering& t, mlir::Value low, mlir::Value high);

/// Returns two elements as a vector: existingPair if there is one, else packed.
mlir::Value pairOf(ThreadLowering& t, mlir::Value low, mlir::Value high);

}  // namespace ligerdsl::compiler::nvptx
