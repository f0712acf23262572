// Step of tile.slice. The slice has the elements begin, begin + step, begin + 2 step ...
#pragma once

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler::tile {

/// Returns the step of a slice; 1 if it has no attribute `tile.step`.
int64_t stepOf(SliceOp slice);
void setStep(SliceOp slice, int64_t step);

/// Returns the type of a slice with this step.
ViewType sliceType(ViewType view, size_t axis, int64_t step);

/// Returns true if the stride of this dimension is a multiple of 16 bytes. Rows that differ only in
/// this index are then equally far from a 16-byte boundary.
bool keepsAlignment(ViewType view, size_t axis);

/// Returns true if all rows of a tile of this shape have the same alignment offset. `tileShape` has
/// one size per dimension of the view.
bool rowsHaveOneOffset(ViewType view, llvm::ArrayRef<int64_t> tileShape);

}  // namespace ligerdsl::compiler::tile
