// Stores an accumulator by TMA copies, which the program does not wait for. Threads write the tile
// to swizzled shared memory in their own layout, one segment of columns after the other, and TMA
// copies read it from there.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"
#include "compiler/layout/linear_layout.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Division of a tile's columns into equal segments.
struct Stretches {
  int64_t parts;
  LinearLayout layout;  // of one segment
};

/// Reason why TMA copies cannot store `source`; empty if they can. `source` is the store's value,
/// or the value that was converted to it. In a cluster each CTA stores its own rows.
std::string reasonNoTensorStore(tile::StoreTileOp store, mlir::Value source);

/// Replaces the store by TMA copies of `source`, its value or the value that was converted to it.
/// Nothing else uses the buffer.
void storeByTensorCopies(tile::StoreTileOp store, mlir::Value source, const Stretches& stretches);

}  // namespace ligerdsl::compiler
