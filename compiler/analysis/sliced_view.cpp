#include "compiler/analysis/sliced_view.h"

using namespace mlir;

namespace ligerdsl::compiler {

SlicedView slicedView(Value view) {
  SlicedView result;
  while (auto slice = view.getDefiningOp<tile::SliceOp>()) {
    const auto dim = static_cast<int32_t>(slice.getAxis());
    if (!result.slices.empty() && dim != result.dim) return result;
    result.dim = dim;
    result.slices.push_back(slice);
    view = slice.getView();
  }
  result.argument = cast<BlockArgument>(view);
  return result;
}

}  // namespace ligerdsl::compiler
