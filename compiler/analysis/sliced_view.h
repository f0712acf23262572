// Views that are slices of a kernel's arguments.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// An argument, or a range of it along one dimension.
struct SlicedView {
  mlir::BlockArgument argument;             // null if slices are along several dimensions
  int32_t dim = -1;                         // -1 for the whole argument
  llvm::SmallVector<tile::SliceOp> slices;  // slices that create the view, last slice first
};
SlicedView slicedView(mlir::Value view);

/// Returns why TMA copies (program::TensorMap) cannot load or store a view's tiles of this shape,
/// with `rows` rows, or "" if they can.
std::string whyNoTensorTiles(mlir::Value view, llvm::ArrayRef<int64_t> tileShape, int64_t rows);

}  // namespace ligerdsl::compiler
