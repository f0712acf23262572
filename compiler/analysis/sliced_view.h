// Views that are parts of a kernel's arguments.
#pragma once

#include <string>

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// An argument, or the part of one between two numbers along a dimension.
struct SlicedView {
  mlir::BlockArgument argument;             // null: slices along several dimensions
  int32_t dim = -1;                         // -1: all of the argument
  llvm::SmallVector<tile::SliceOp> slices;  // that make it, each one of the next
};
SlicedView slicedView(mlir::Value view);

/// Why tensor copies (program::TensorMap) cannot bring or store tiles of this shape, of `rows` rows, of a view; empty if they can.
std::string whyNoTensorTiles(mlir::Value view, llvm::ArrayRef<int64_t> tileShape, int64_t rows);

}  // namespace ligerdsl::compiler
