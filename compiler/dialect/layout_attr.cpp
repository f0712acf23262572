#include "compiler/dialect/layout_attr.h"

#include "compiler/layout/conversion.h"

using namespace mlir;

namespace ligerdsl::compiler {

static LinearLayout::Bases unflatten(ArrayRef<int64_t> flat, int64_t rank) {
  LinearLayout::Bases bases;
  for (size_t i = 0; i < flat.size(); i += rank)
    bases.emplace_back(flat.begin() + i, flat.begin() + i + rank);
  return bases;
}

static SmallVector<int64_t> flatten(const LinearLayout::Bases& bases) {
  SmallVector<int64_t> flat;
  for (const auto& basis : bases) flat.append(basis.begin(), basis.end());
  return flat;
}

bool hasLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa_and_nonnull<tgpu::LayoutAttr>(tensor.getEncoding());
}

LinearLayout layoutOf(RankedTensorType type) {
  auto attr = cast<tgpu::LayoutAttr>(type.getEncoding());
  return LinearLayout(
      LinearLayout::Shape(type.getShape()), unflatten(attr.getRegisters(), attr.getRank()),
      unflatten(attr.getLanes(), attr.getRank()), unflatten(attr.getWarps(), attr.getRank()),
      unflatten(attr.getCtas(), attr.getRank()));
}

tgpu::LayoutAttr layoutAttr(MLIRContext* context, const LinearLayout& layout) {
  return tgpu::LayoutAttr::get(context, layout.rank(), flatten(layout.bases(Axis::reg)),
                               flatten(layout.bases(Axis::lane)), flatten(layout.bases(Axis::warp)),
                               flatten(layout.bases(Axis::cta)));
}

RankedTensorType withLayout(RankedTensorType type, const LinearLayout& layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               layoutAttr(type.getContext(), layout));
}

std::optional<RankedTensorType> partOfCta(RankedTensorType type) {
  std::optional<LinearLayout> part = layoutOf(type).partOfCta();
  if (!part) return std::nullopt;
  return RankedTensorType::get(part->shape(), type.getElementType(),
                               layoutAttr(type.getContext(), *part));
}

// Returns the source element that a shape op puts at position `at` of its result.
static LinearLayout::Coordinates sourceElement(Operation* op, ArrayRef<int64_t> sourceShape,
                                               ArrayRef<int64_t> resultShape,
                                               LinearLayout::Coordinates at) {
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    at.erase(at.begin() + expand.getAxis());
  } else if (isa<tile::BroadcastOp>(op)) {
    for (auto [dim, size] : llvm::enumerate(sourceShape))
      if (size == 1) at[dim] = 0;
  } else if (auto permute = dyn_cast<tile::PermuteOp>(op)) {
    LinearLayout::Coordinates source(at.size());
    for (auto [dim, from] : llvm::enumerate(permute.getPermutation())) source[from] = at[dim];
    return source;
  } else if (auto segment = dyn_cast<tgpu::SegmentOp>(op)) {
    for (auto [dim, begin] : llvm::enumerate(segment.getBegin())) at[dim] += begin;
  } else if (isa<tile::ReshapeOp>(op)) {
    int64_t index = 0;
    for (auto [dim, size] : llvm::enumerate(resultShape)) index = index * size + at[dim];
    LinearLayout::Coordinates source(sourceShape.size());
    for (int dim = int(sourceShape.size()) - 1; dim >= 0; --dim) {
      source[dim] = index % sourceShape[dim];
      index /= sourceShape[dim];
    }
    return source;
  }
  return at;
}

std::optional<SmallVector<int32_t>> shapeOpSources(Operation* op) {
  auto sourceType = cast<RankedTensorType>(op->getOperand(0).getType());
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
  LinearLayout source = layoutOf(sourceType), result = layoutOf(resultType);
  // The renaming must be the same in all threads. It is computed for thread 0 and checked for one
  // thread per lane, warp and CTA bit, which suffices because layouts are linear.
  auto registerOf = [&](const Place& place) -> std::optional<int64_t> {
    auto wanted =
        sourceElement(op, sourceType.getShape(), resultType.getShape(), result.coordinates(place));
    if (place.lane == 0 && place.warp == 0 && place.cta == 0) return source.registerAt(wanted);
    for (int64_t reg = 0; reg < source.registers(); ++reg)
      if (source.coordinates({reg, place.lane, place.warp, place.cta}) == wanted) return reg;
    return std::nullopt;
  };
  SmallVector<int32_t> sources;
  for (int64_t reg = 0; reg < result.registers(); ++reg) {
    auto from = registerOf({.reg = reg});
    if (!from) return std::nullopt;
    sources.push_back(static_cast<int32_t>(*from));
  }
  for (int64_t lane = 1; lane < result.lanes(); lane *= 2)
    if (registerOf({.lane = lane}) != sources[0]) return std::nullopt;
  for (int64_t warp = 1; warp < result.warps(); warp *= 2)
    if (registerOf({.warp = warp}) != sources[0]) return std::nullopt;
  for (int64_t cta = 1; cta < result.ctas(); cta *= 2)
    if (registerOf({.cta = cta}) != sources[0]) return std::nullopt;
  return sources;
}

}  // namespace ligerdsl::compiler
