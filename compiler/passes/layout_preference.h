// The layout that a class of tiles would choose for itself.
#pragma once

#include "compiler/passes/layout_classes.h"

namespace ligerdsl::compiler {

/// The widest vector, in elements, and the tile dimension along which an access of global memory may use it, as far as the
/// types' facts (alignment, strides, divisors) prove.
struct AccessShape {
  int64_t vector = 1;
  int fastDim = -1;  // -1: no dimension is known to be contiguous
};
AccessShape accessShape(mlir::Operation* access);

/// Elements per thread and vector that the class's memory accesses want: 16 bytes of the narrowest type, less where facts
/// forbid it or threads would go idle.
int64_t preferredVector(const LayoutClass& tiles, int64_t threads);

/// Blocked over 32 lanes and `warps` warps, vectors along the dimension that is contiguous in memory.
LinearLayout preferredLayout(const LayoutClass& tiles, int64_t warps);

}  // namespace ligerdsl::compiler
