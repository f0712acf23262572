// Views that are parts of a kernel's arguments.
#pragma once

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// An argument, or the part of one between two numbers along a dimension.
struct SlicedView {
  mlir::BlockArgument argument;             // null: slices along several dimensions
  int32_t dim = -1;                         // -1: all of the argument
  llvm::SmallVector<tile::SliceOp> slices;  // that make it, each one of the next
};
SlicedView slicedView(mlir::Value view);

}  // namespace ligerdsl::compiler
