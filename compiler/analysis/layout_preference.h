// Preferred layout of a class of tiles, and the width of its memory accesses.
#pragma once

#include <string>

#include "compiler/analysis/layout_classes.h"

namespace ligerdsl::compiler {

/// Width in elements of the widest vector access to global memory that the facts of the types
/// (alignment, strides, divisors) prove, and the tile dimension of the vector.
struct AccessShape {
  int64_t vector = 1;
  int fastDim = -1;  // -1: no dimension is known to be contiguous
};
AccessShape accessShape(mlir::Operation* access);

/// Returns the fact that is missing for 16-byte accesses to a tile of a partition, and what to
/// change.
std::string whyNarrow(mlir::Operation* access);

/// Returns the preferred number of elements per thread and vector: 16 bytes of the narrowest type.
/// It is less if facts forbid it or if threads would be idle.
int64_t preferredVector(const LayoutClass& tiles, int64_t threads);

/// Returns the widest vector that facts allow for any access of the class, even if threads would be
/// idle.
int64_t widestVector(const LayoutClass& tiles);

/// Number of warps per CTA and of CTAs per cluster.
struct Threads {
  int64_t warps = 4, ctas = 1;
  int64_t perCta() const { return 32 * warps; }
  int64_t count() const { return perCta() * ctas; }
};

/// Returns a blocked layout over these threads, with vectors along the dimension that is contiguous
/// in memory. CTAs split the tile if it has an element for every thread: along outer dimensions
/// that no reduction combines, else along the last.
LinearLayout blockedLayout(const LayoutClass& tiles, const Threads& threads, int64_t vector);
LinearLayout preferredLayout(const LayoutClass& tiles, const Threads& threads);

}  // namespace ligerdsl::compiler
