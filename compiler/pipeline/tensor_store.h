// Stores an accumulator by asynchronous TMA copies. Threads write the accumulator, one segment of
// columns after the other, from its register layout to swizzled shared memory, which the copies
// read. The program waits for them only before it reuses that memory, and after the outermost loop.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"
#include "compiler/layout/linear_layout.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Split of a tile's columns into equal segments.
struct Segments {
  int64_t parts;
  LinearLayout layout;  // layout of one segment
};

/// Returns why TMA copies cannot store `source`, or "" if they can. `source` is the store's value,
/// or that value before its conversion. In a cluster each CTA stores its own rows.
std::string reasonNoTensorStore(tile::StoreTileOp store, mlir::Value source);

/// Replaces the store by TMA copies of `source`, its value before or after conversion.
void storeByTensorCopies(tile::StoreTileOp store, mlir::Value source, const Segments& segments);

}  // namespace ligerdsl::compiler
