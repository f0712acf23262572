// A store of products' sums that goes on behind the program: threads write the tile to swizzled shared memory as they have it, a stretch of
// columns after the other, and tensor copies take it from there.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"
#include "compiler/layout/linear_layout.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Equal stretches of a tile's columns.
struct Stretches {
  int64_t parts;
  LinearLayout layout;  // of one
};

/// Why the store, of a tile of two dimensions, cannot be one of `source`, its value or what that was converted from; empty if it can. Of a
/// cluster's tile each CTA stores its own rows.
std::string whyNoTensorStore(tile::StoreTileOp store, mlir::Value source);

/// Stores `source`, the store's value or what it was converted from, in its place. The buffer is used by nothing else.
void storeByTensorCopies(tile::StoreTileOp store, mlir::Value source, const Stretches& stretches);

}  // namespace ligerdsl::compiler
