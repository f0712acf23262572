// Preferred layout of a class of tiles, and the width of its memory accesses.
#pragma once

#include <string>

#include "compiler/analysis/layout_classes.h"

namespace ligerdsl::compiler {

/// Widest vector access to global memory, in elements, that the facts of the types (alignment,
/// strides, divisors) allow, and the vector's tile dimension.
struct AccessShape {
  int64_t vector = 1;
  int fastDim = -1;  // -1: no dimension is known to be contiguous
};
AccessShape accessShape(mlir::Operation* access);

/// Returns why a partition's tile is not accessed by vectors of 16 bytes, and what to change.
std::string whyNarrow(mlir::Operation* access);

/// Returns the preferred number of elements per vector: the widest vector that the facts allow, or
/// less if some threads would otherwise have no element.
int64_t preferredVector(const LayoutClass& tiles, int64_t threads);

/// Returns the widest vector, in elements, that the facts allow for any access of the class, even
/// if some threads then have no element.
int64_t widestVector(const LayoutClass& tiles);

/// Warps per CTA, and CTAs per cluster.
struct Threads {
  int64_t warps = 4, ctas = 1;
  int64_t perCta() const { return 32 * warps; }
  int64_t count() const { return perCta() * ctas; }
};

/// Returns a blocked layout over these threads, with vectors along the dimension that is contiguous
/// in memory. CTAs split the tile if it has an element for every thread and no scan reads it. They
/// first split dimensions that no reduction combines, from the outermost to the innermost.
LinearLayout blockedLayout(const LayoutClass& tiles, const Threads& threads, int64_t vector);
LinearLayout preferredLayout(const LayoutClass& tiles, const Threads& threads);

}  // namespace ligerdsl::compiler
