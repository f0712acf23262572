// Copies of whole tiles to swizzled slots (PTX ISA: cp.async.bulk.tensor, tiled mode; sm_90 and later), by one thread, which
// announces their bytes at the slot's memory barrier. A copy brings all rows of one panel. What lies outside of the view is
// filled with zeros, and counts as bytes all the same.
#include "compiler/target/nvptx/tensor_fill.h"

#include <limits>

#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/sliced_view.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/slice_bounds.h"
#include "compiler/target/nvptx/tensor_maps.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Where tile `index` begins, in elements. Coordinates are 32 bits: tiles that begin beyond are outside of every view that has a
// map, and so is the last one that can be said.
Value coordinate(ThreadLowering& t, Value index, int64_t size) {
  const int64_t last = std::numeric_limits<int32_t>::max() / size - 1;
  if (index.getType().isIndex()) index = arith::IndexCastOp::create(t.b, t.loc, t.b.getI64Type(), index);
  if (index.getType().isInteger(32)) index = arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), index);
  index = arith::MinSIOp::create(t.b, t.loc, index, t.constant(last, 64));
  index = arith::MaxSIOp::create(t.b, t.loc, index, t.constant(-1, 64));
  Value number = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), index);
  return arith::MulIOp::create(t.b, t.loc, number, t.constant(size));
}

// Of a tile of a slice that begins at this row, along the dimension that is sliced and those behind it (program::TensorMap). Tiles in front
// of the slice are as outside as those behind it. In 32 bits: sizes are 2^30 at most, and what wraps is below 0, which is outside too.
SmallVector<Value> coordinatesOfSlice(ThreadLowering& t, SlicedView view, Value row) {
  constexpr int64_t kRows = program::TensorMap::kSliceRows;
  Value begin;
  for (tile::SliceOp slice : view.slices) {
    const Value here = sliceBounds(t, slice).begin;
    begin = begin ? arith::AddIOp::create(t.b, t.loc, begin, here) : here;
  }
  const Value size = t.pieces(view.slices.front())[1 + view.dim], end = arith::AddIOp::create(t.b, t.loc, begin, size);
  const auto narrow = [&](Value number) -> Value {
    return arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), number);
  };
  const Value all = t.constant(kRows), before = arith::SubIOp::create(t.b, t.loc, all, narrow(size)),
              at = arith::AddIOp::create(t.b, t.loc, before, arith::MinSIOp::create(t.b, t.loc, row, all)),
              behind = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, row, t.constant(0));
  return {arith::SelectOp::create(t.b, t.loc, behind, at, all), narrow(end), all};
}

void copyPart(ThreadLowering& t, tgpu::RingFillOp op, unsigned part, ValueRange indices, Value target, Value barrier) {
  const tgpu::MemDescType slot = op.getRing().getType().part(part);
  const int64_t rows = slot.getShape()[0], columns = slot.getShape()[1];
  const program::TensorMap map = tensorMapOf(op, part);
  const SlicedView view = slicedView(op.getViews()[part]);
  SmallVector<Value> places, beyond;  // from the last dimension to the first, and behind them
  for (auto [dim, index, shape] : llvm::enumerate(indices, op.shapeOf(part))) {
    SmallVector<Value> here{coordinate(t, index, std::max<int64_t>(shape, 1))};
    if (static_cast<int32_t>(dim) == view.dim) here = coordinatesOfSlice(t, view, here[0]);
    places.insert(places.begin(), here[0]);
    beyond.append(here.begin() + 1, here.end());
  }
  llvm::append_range(places, beyond);
  const size_t rank = places.size();
  std::string text = "cp.async.bulk.tensor." + std::to_string(rank) +
                     "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {",
              constraints = "r,l,";
  for (size_t i = 0; i < rank; ++i) text += (i ? ", $" : "$") + std::to_string(i + 2), constraints += "r,";
  text += "}], [$" + std::to_string(rank + 2) + "];";
  for (int64_t panel = 0; panel * map.box.back() < columns; ++panel) {
    SmallVector<Value> operands{arith::AddIOp::create(t.b, t.loc, target, t.constant(panel * rows * map.swizzle)),
                                t.tensorMap(map)};
    operands.push_back(arith::AddIOp::create(t.b, t.loc, places[0], t.constant(panel * map.box.back())));
    llvm::append_range(operands, ArrayRef(places).drop_front());
    operands.push_back(barrier);
    inlinePtx(t, {}, operands, text, constraints + "r,~{memory}");
  }
}

}  // namespace

LogicalResult fillByTensorCopies(ThreadLowering& t, tgpu::RingFillOp op) {
  const tgpu::RingType ring = op.getRing().getType();
  const Pieces places = t.pieces(op.getRing());  // of the parts, and of the barriers
  LogicalResult done = success();
  inThreadsBelow(t, t.scalar(op.getCount()), [&] {
    Block& body = op.getPosition().front();
    t.define(body.getArgument(0), {t.scalar(op.getFirst())});
    if (failed(done = t.lowerBlock(body))) return;
    t.loc = op.getLoc();
    const SmallVector<Value> indices =
        llvm::map_to_vector(body.getTerminator()->getOperands(), [&](Value value) { return t.scalar(value); });
    Value slot = t.scalar(op.getSlot()), barrier = mbarrierAddress(t, places.back(), slot);
    int64_t bytes = 0;
    for (unsigned part = 0; part < op.getViews().size(); ++part) bytes += bufferBytes(ring.part(part));
    arriveExpecting(t, barrier, t.constant(bytes));
    for (unsigned part = 0; part < op.getViews().size(); ++part)
      copyPart(t, op, part, ValueRange(indices).slice(op.firstDim(part), op.shapeOf(part).size()),
               stageAddress(t, places[part], slot, bufferBytes(ring.part(part))), barrier);
  });
  return done;
}

}  // namespace ligerdsl::compiler::nvptx
