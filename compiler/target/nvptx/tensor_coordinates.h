// Where a tensor copy finds a tile.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The coordinates of tile `indices` of a view in its tensor map, from the last dimension to the first, then those of a slice.
llvm::SmallVector<mlir::Value> tensorCoordinates(ThreadLowering& t, mlir::Value view, mlir::ValueRange indices,
                                                 llvm::ArrayRef<int64_t> tileShape);

}  // namespace ligerdsl::compiler::nvptx
