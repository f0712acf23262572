// Elements by two, for instructions that work on two at a time.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The vector of two elements that are neighbours in memory order: part of the vector they come from, or null.
mlir::Value existingPair(ThreadLowering& t, mlir::Value low, mlir::Value high);

/// The vector of two elements, where they come from the same one part of that.
mlir::Value pairOf(ThreadLowering& t, mlir::Value low, mlir::Value high);

}  // namespace ligerdsl::compiler::nvptx
