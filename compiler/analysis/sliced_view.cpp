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
  if (!sliced.argument || sliced.dim + 1 == static_cast<int32_t>(tileShape.size()))
    return "a slice must be along one dimension, other than the last";
  if (tileShape.size() > program::TensorMap::kMostDims || tileShape.back() == 0 ||
      type.getStrides().back() != 1)
    return "the view must have at most five dimensions, the last of stride 1";
  if (sliced.dim >= 0 &&
      tileShape.size() + program::TensorMap::kSliceDims > program::TensorMap::kMostDims)
    return "a sliced view must have at most three dimensions";
  if (rows > kMostRows)
    return "a copy has at most " + std::to_string(kMostRows) + " rows, the tile has " +
           std::to_string(rows) + "; use smaller tiles";
  return "";
}

}  // namespace ligerdsl::compiler
