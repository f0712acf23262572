// Where a tensor copy finds a tile.
#pragma once

#include "compiler/target/nvptx/tensor_maps.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The coordinates of tile `indices` of a view in its tensor map, from the last dimension to the first, then those of a slice.
llvm::SmallVector<mlir::Value> tensorCoordinates(ThreadLowering& t, mlir::Value view, mlir::ValueRange indices,
                                                 llvm::ArrayRef<int64_t> tileShape);

/// What lies `each` behind `before` for every CTA of the cluster in front of this one.
mlir::Value afterCtas(ThreadLowering& t, mlir::Value before, int64_t each);

/// The coordinates of what this CTA copies of a tile at `places`; `columns`: of a CTA's part.
llvm::SmallVector<mlir::Value> placesOfCta(ThreadLowering& t, const CtaCopy& own, llvm::SmallVector<mlir::Value> places,
                                           int64_t columns);

}  // namespace ligerdsl::compiler::nvptx
