// Coordinates of TMA copies.
#pragma once

#include "compiler/target/nvptx/tensor_maps.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Returns the coordinates of the tile at `indices` of a view in its tensor map. They are in the
/// order of the view's dimensions from last to first, then of the two extra dimensions of a sliced
/// view (program::TensorMap).
llvm::SmallVector<mlir::Value> tensorCoordinates(ThreadLowering& t, mlir::Value view,
                                                 mlir::ValueRange indices,
                                                 llvm::ArrayRef<int64_t> tileShape);

/// Returns `before` plus `each` times this CTA's rank in the cluster.
mlir::Value afterCtas(ThreadLowering& t, mlir::Value before, int64_t each);

/// Returns the coordinates of this CTA's part of a tile. `places` are the tile's coordinates. Each
/// CTA's part has `columns` columns.
llvm::SmallVector<mlir::Value> placesOfCta(ThreadLowering& t, const CtaCopy& own,
                                           llvm::SmallVector<mlir::Value> places, int64_t columns);

}  // namespace ligerdsl::compiler::nvptx
