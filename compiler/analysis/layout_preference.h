// The layout that a class of tiles would choose for itself.
#pragma once

#include <string>

#include "compiler/analysis/layout_classes.h"

namespace ligerdsl::compiler {

/// The widest vector, in elements, and the tile dimension along which an access of global memory may use it, as far as
/// the types' facts (alignment, strides, divisors) prove.
struct AccessShape {
  int64_t vector = 1;
  int fastDim = -1;  // -1: no dimension is known to be contiguous
};
AccessShape accessShape(mlir::Operation* access);

/// The fact that a load or store of a partition's tile lacks for vectors of 16 bytes, and what to change.
std::string whyNarrow(mlir::Operation* access);

/// Elements per thread and vector that the class's memory accesses want: 16 bytes of the narrowest type, less where
/// facts forbid it or threads would go idle.
int64_t preferredVector(const LayoutClass& tiles, int64_t threads);

/// The widest vector that facts allow any access of the class, whether or not threads go idle.
int64_t widestVector(const LayoutClass& tiles);

/// The threads of one program: warps of each CTA, CTAs of the cluster.
struct Threads {
  int64_t warps = 4, ctas = 1;
  int64_t perCta() const { return 32 * warps; }
  int64_t count() const { return perCta() * ctas; }
};

/// Blocked over these threads, vectors along the dimension that is contiguous in memory. CTAs cut the tile, if it has
/// an element for every thread: along outer dimensions that no reduction combines, else along the last.
LinearLayout blockedLayout(const LayoutClass& tiles, const Threads& threads, int64_t vector);
LinearLayout preferredLayout(const LayoutClass& tiles, const Threads& threads);

}  // namespace ligerdsl::compiler
