// Views that are slices of a kernel's arguments.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// A view as a slice of a kernel's argument along one dimension, or as the whole argument.
struct SlicedView {
  mlir::BlockArgument argument;  // null if sliced with a step or along several dimensions
  int32_t dim = -1;              // the sliced dimension; -1: whole argument
  llvm::SmallVector<tile::SliceOp> slices;  // slices that create the view, last slice first
};
SlicedView slicedView(mlir::Value view);

/// Returns why TMA copies (program::TensorMap) cannot load or store tiles of this shape of a view,
/// or "" if they can. Each copy has `rows` rows.
std::string whyNoTensorTiles(mlir::Value view, llvm::ArrayRef<int64_t> tileShape, int64_t rows);

}  // namespace ligerdsl::compiler
