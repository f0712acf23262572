#include "compiler/target/nvptx/tensor_coordinates.h"

#include <limits>

#include "compiler/analysis/sliced_view.h"
#include "compiler/target/nvptx/slice_bounds.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Returns the coordinate of the first element of tile `index`. Coordinates have 32 bits, so the
// index is clamped. A clamped tile stays outside every view that has a tensor map.
Value coordinate(ThreadLowering& t, Value index, int64_t size) {
  const int64_t last = std::numeric_limits<int32_t>::max() / size - 1;
  if (index.getType().isIndex())
    index = arith::IndexCastOp::create(t.b, t.loc, t.b.getI64Type(), index);
  if (index.getType().isInteger(32))
    index = arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), index);
  index = arith::MinSIOp::create(t.b, t.loc, index, t.constant(last, 64));
  index = arith::MaxSIOp::create(t.b, t.loc, index, t.constant(-1, 64));
  Value number = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), index);
  return arith::MulIOp::create(t.b, t.loc, number, t.constant(size));
}

// Returns the three coordinates of a tile at row `row` of a slice: in the sliced dimension, and in
// the two extra dimensions (program::TensorMap). A tile before the slice gets a coordinate after
// it, which is outside too. 32 bits suffice: sizes are at most 2^30, and a sum that wraps is
// negative, which is also outside.
SmallVector<Value> coordinatesOfSlice(ThreadLowering& t, SlicedView view, Value row) {
  constexpr int64_t kRows = program::TensorMap::kSliceRows;
  Value begin;
  for (tile::SliceOp slice : view.slices) {
    const Value here = sliceBounds(t, slice).begin;
    begin = begin ? arith::AddIOp::create(t.b, t.loc, begin, here) : here;
  }
  const Value size = t.pieces(view.slices.front())[1 + view.dim],
              end = arith::AddIOp::create(t.b, t.loc, begin, size);
  const auto narrow = [&](Value number) -> Value {
    return arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), number);
  };
  const Value all = t.constant(kRows),
              before = arith::SubIOp::create(t.b, t.loc, all, narrow(size)),
              at = arith::AddIOp::create(t.b, t.loc, before,
                                         arith::MinSIOp::create(t.b, t.loc, row, all)),
              notBefore =
                  arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, row, t.constant(0));
  return {arith::SelectOp::create(t.b, t.loc, notBefore, at, all), narrow(end), all};
}

}  // namespace

SmallVector<Value> tensorCoordinates(ThreadLowering& t, Value view, ValueRange indices,
                                     ArrayRef<int64_t> tileShape) {
  const SlicedView sliced = slicedView(view);
  SmallVector<Value> places, beyond;
  for (auto [dim, index, shape] : llvm::enumerate(indices, tileShape)) {
    SmallVector<Value> here{coordinate(t, index, std::max<int64_t>(shape, 1))};
    if (static_cast<int32_t>(dim) == sliced.dim) here = coordinatesOfSlice(t, sliced, here[0]);
    places.insert(places.begin(), here[0]);
    beyond.append(here.begin() + 1, here.end());
  }
  llvm::append_range(places, beyond);
  return places;
}

Value afterCtas(ThreadLowering& t, Value before, int64_t each) {
  Value step = arith::MulIOp::create(t.b, t.loc, t.ctaRank(), t.constant(each));
  return arith::AddIOp::create(t.b, t.loc, before, step);
}

SmallVector<Value> placesOfCta(ThreadLowering& t, const CtaCopy& own, SmallVector<Value> places,
                               int64_t columns) {
  Value& row = places[own.columnDim - own.rowDim];
  if (own.ownRows || own.toAll) row = afterCtas(t, row, own.rows);
  if (own.ownColumns) places[0] = afterCtas(t, places[0], columns);
  return places;
}

}  // namespace ligerdsl::compiler::nvptx
