#include "compiler/analysis/layout_preference.h"

#include <numeric>

#include "compiler/analysis/divisibility.h"
#include "compiler/analysis/row_alignment.h"
#include "compiler/dialect/slice_step.h"
#include "compiler/dialect/tgpu.h"
#include "mlir/IR/Matchers.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

static int64_t elementBytes(Type type) {
  return std::max<int64_t>(1, type.getIntOrFloatBitWidth() / 8);
}

static bool isZero(Value value) {
  return matchPattern(value, m_Zero());
}

// Returns the innermost view dimension with stride 1 that the tile spans, or -1 if there is none.
static int unitStrideDim(tile::ViewType view, ArrayRef<int64_t> tileShape) {
  for (int dim = int(tileShape.size()) - 1; dim >= 0; --dim)
    if (tileShape[dim] != 0 && view.getStrides()[dim] == 1) return dim;
  return -1;
}

// A vector's offset from the view's base is the sum of index times stride over all dimensions.
// Returns the largest power of two that provably divides the term of `dim` in every vector.
static int64_t offsetDivisor(tile::ViewType view, ValueRange indices, ArrayRef<int64_t> tileShape,
                             int fast, int dim) {
  const int64_t size = std::max<int64_t>(tileShape[dim], 1);
  const int64_t stride =
      view.isDynamicStride(dim) ? view.getStrideDivisors()[dim] : view.getStrides()[dim];
  if (dim != fast && size > 1) return powerOfTwoPart(stride);
  if (isZero(indices[dim])) return powerOfTwoPart(0);
  const int64_t step = powerOfTwoPart(dim == fast ? size : stride),
                index = powerOfTwoPart(divisorOf(indices[dim]));
  return step > powerOfTwoPart(0) / index ? powerOfTwoPart(0) : step * index;
}

// Returns the access shape of a tile with an alignment offset, or nothing for other tiles. For
// stores, a test at run time checks that the offset matches the row.
static std::optional<AccessShape> offsetAccess(Operation* access) {
  auto shape = [](tile::ViewType view, ArrayRef<int64_t> tileShape, bool whole) {
    int64_t vector = whole ? tile::kVectorBytes / elementBytes(view.getElementType()) : 1;
    return AccessShape{.vector = std::min(vector, powerOfTwoPart(tileShape.back())),
                       .fastDim = static_cast<int>(llvm::count_if(
                           tileShape.drop_back(), [](int64_t size) { return size != 0; }))};
  };
  if (auto load = dyn_cast<tile::LoadTileOp>(access); load && load.getAlignmentOffset())
    return shape(load.getView().getType(), load.getTileShape(),
                 isShiftOfAlignedRow(load) ||
                     alignmentOffsetAligns(load.getAlignmentOffset(), load.getView(),
                                           load.getIndices(), load.getTileShape()));
  if (auto store = dyn_cast<tile::StoreTileOp>(access); store && store.getAlignmentOffset())
    return shape(store.getView().getType(), store.getTileShape(),
                 tile::rowsHaveOneOffset(store.getView().getType(), store.getTileShape()));
  return std::nullopt;
}

static AccessShape viewAccess(tile::ViewType view, ValueRange indices,
                              ArrayRef<int64_t> tileShape) {
  int fast = unitStrideDim(view, tileShape);
  if (fast < 0) return {};
  AccessShape access;
  access.fastDim = static_cast<int>(
      llvm::count_if(tileShape.take_front(fast), [](int64_t size) { return size != 0; }));
  int64_t bytes = elementBytes(view.getElementType());
  int64_t aligned = std::max<int64_t>(1, powerOfTwoPart(view.getAlignment()) / bytes);
  access.vector = std::min(tile::kVectorBytes / bytes, aligned);
  for (int dim = 0; dim < static_cast<int>(tileShape.size()); ++dim)
    access.vector = std::min(access.vector, offsetDivisor(view, indices, tileShape, fast, dim));
  return access;
}

AccessShape accessShape(Operation* access) {
  // Four 32-bit elements are one 16-byte vector. With eight elements a lane would have two vectors,
  // and each store would write only half of a sector.
  if (isUnalignedArray(access)) return {.vector = 4, .fastDim = 0};
  if (std::optional<AccessShape> offset = offsetAccess(access)) return *offset;
  if (auto load = dyn_cast<tile::LoadTileOp>(access))
    return viewAccess(load.getView().getType(), load.getIndices(), load.getTileShape());
  if (auto store = dyn_cast<tile::StoreTileOp>(access))
    return viewAccess(store.getView().getType(), store.getIndices(), store.getTileShape());
  if (auto load = dyn_cast<tgpu::LocalLoadOp>(access)) {
    auto buffer = load.getBuffer().getType();
    return {.vector = tile::kVectorBytes / elementBytes(buffer.getElementType()),
            .fastDim = static_cast<int>(buffer.getShape().size()) - 1};
  }
  return {};
}

static std::string whyNarrowView(tile::ViewType view, ValueRange indices,
                                 ArrayRef<int64_t> tileShape) {
  const int fast = unitStrideDim(view, tileShape);
  if (fast < 0)
    return "no dimension of the tile is known to have stride 1; declare the view's strides, or "
           "take tiles along the contiguous dimension";
  const int64_t bytes = elementBytes(view.getElementType()), vector = tile::kVectorBytes / bytes;
  if (view.getAlignment() % tile::kVectorBytes != 0)
    return "the address is only known to be a multiple of " + std::to_string(view.getAlignment()) +
           " bytes; align it to 16 bytes";
  for (int dim = 0; dim < static_cast<int>(tileShape.size()); ++dim) {
    const int64_t known = offsetDivisor(view, indices, tileShape, fast, dim);
    if (dim != fast && known < vector)
      return "rows along dimension " + std::to_string(dim) +
             " are only known to begin at a multiple of " + std::to_string(known) +
             " elements, not of " + std::to_string(vector) +
             "; pad them, use an alignment offset (View::alignment_offset), or promise a divisor "
             "of the index (assume_divisible)";
  }
  return "tiles have " + std::to_string(tileShape[fast]) +
         " elements along the dimension of stride 1, not a multiple of " + std::to_string(vector) +
         "; use tiles of whole vectors";
}

std::string whyNarrow(Operation* access) {
  if (isUnalignedArray(access))
    return "the alignment of the array is unknown, so each lane moves 4 elements; align its "
           "address to 16 bytes";
  if (offsetAccess(access))
    return "the alignment offset is not provably that of all rows of the tile; use tiles of one "
           "row, with the offset of this row";
  if (auto load = dyn_cast<tile::LoadTileOp>(access))
    return whyNarrowView(load.getView().getType(), load.getIndices(), load.getTileShape());
  auto store = cast<tile::StoreTileOp>(access);
  return whyNarrowView(store.getView().getType(), store.getIndices(), store.getTileShape());
}

static int64_t linearElements(const LayoutClass& tiles) {
  int64_t product = 1;
  for (int64_t size : tiles.shape) product *= powerOfTwoPart(size);
  return product;
}

int64_t widestVector(const LayoutClass& tiles) {
  int64_t vector = 1;
  for (Operation* access : tiles.accesses) vector = std::max(vector, accessShape(access).vector);
  return vector;
}

int64_t preferredVector(const LayoutClass& tiles, int64_t threads) {
  return std::clamp<int64_t>(linearElements(tiles) / threads, 1, widestVector(tiles));
}

// Returns the dimensions along which CTAs split the tile. A scanned tile is not split, because a
// scan runs within one warp.
static ClusterCut cutOf(const LayoutClass& tiles, const Threads& threads) {
  ClusterCut cut{threads.ctas, {}};
  if (tiles.scanned || linearElements(tiles) < threads.count()) return cut;
  const int last = static_cast<int>(tiles.shape.size()) - 1;
  for (int dim = 0; dim <= last; ++dim)
    if (!(tiles.reducedDims >> dim & 1)) cut.dims.push_back(dim);
  for (int dim = last; dim >= 0; --dim)
    if (tiles.reducedDims >> dim & 1) cut.dims.push_back(dim);
  return cut;
}

LinearLayout preferredLayout(const LayoutClass& tiles, const Threads& threads) {
  return blockedLayout(tiles, threads, preferredVector(tiles, threads.count()));
}

LinearLayout blockedLayout(const LayoutClass& tiles, const Threads& threads, int64_t vector) {
  int rank = static_cast<int>(tiles.shape.size());
  int fast = -1;
  for (Operation* access : tiles.accesses)
    if (int dim = accessShape(access).fastDim; dim >= 0 && fast != rank - 1) fast = dim;
  ClusterCut cut = cutOf(tiles, threads);
  auto build = tiles.reducedAlongRows ? &LinearLayout::rowsPerWarp : &LinearLayout::blocked;
  if (fast < 0 || fast == rank - 1)
    return build(tiles.shape, vector, program::kWarpThreads, threads.warps, cut);

  // Build the layout with the contiguous dimension last, then permute it back.
  std::vector<int64_t> order, inverse(rank);
  for (int dim = 0; dim < rank; ++dim)
    if (dim != fast) order.push_back(dim);
  order.push_back(fast);
  LinearLayout::Shape shape;
  for (int dim = 0; dim < rank; ++dim) {
    shape.push_back(tiles.shape[order[dim]]);
    inverse[order[dim]] = dim;
  }
  for (int& dim : cut.dims) dim = static_cast<int>(inverse[dim]);
  return LinearLayout::blocked(shape, vector, program::kWarpThreads, threads.warps, cut)
      .permute(inverse);
}

}  // namespace ligerdsl::compiler
