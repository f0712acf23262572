#include "compiler/analysis/sliced_view.h"

#include "compiler/dialect/slice_step.h"
#include "program/artifact.h"

using namespace mlir;

namespace ligerdsl::compiler {

SlicedView slicedView(Value view) {
  SlicedView result;
  while (auto slice = view.getDefiningOp<tile::SliceOp>()) {
    const auto dim = static_cast<int32_t>(slice.getAxis());
    if (tile::stepOf(slice) != 1 || (!result.slices.empty() && dim != result.dim)) return result;
    result.dim = dim;
    result.slices.push_back(slice);
    view = slice.getView();
  }
  result.argument = cast<BlockArgument>(view);
  return result;
}

std::string whyNoTensorTiles(Value view, ArrayRef<int64_t> tileShape, int64_t rows) {
  constexpr int64_t kMostRows = 256;  // rows per copy
  const auto type = cast<tile::ViewType>(view.getType());
  const SlicedView sliced = slicedView(view);
  constexpr auto kMostDims = program::TensorMap::kMostDims;
  constexpr auto kMostSlicedDims = kMostDims - program::TensorMap::kSliceDims;
  if (!sliced.argument)
    return "the view is sliced along several dimensions or with a step; slice one dimension, with "
           "step 1";
  if (sliced.dim + 1 == static_cast<int32_t>(tileShape.size()))
    return "the view is sliced along its last dimension; slice another one";
  if (tileShape.size() > kMostDims)
    return "the view has " + std::to_string(tileShape.size()) +
           " dimensions, and TMA copies take at most " + std::to_string(kMostDims);
  if (tileShape.back() == 0)
    return "the tile squeezes the view's last dimension; keep it in the tile";
  if (type.getStrides().back() != 1)
    return "the view's last dimension must have stride 1, and its stride is " +
           (type.isDynamicStride(tileShape.size() - 1) ? "unknown"
                                                       : std::to_string(type.getStrides().back()));
  if (sliced.dim >= 0 && tileShape.size() > kMostSlicedDims)
    return "the view is sliced and has " + std::to_string(tileShape.size()) +
           " dimensions, and TMA copies of a sliced view take at most " +
           std::to_string(kMostSlicedDims);
  if (rows > kMostRows)
    return "the tile has " + std::to_string(rows) + " rows, and a TMA copy takes at most " +
           std::to_string(kMostRows) + "; use smaller tiles";
  return "";
}

}  // namespace ligerdsl::compiler
