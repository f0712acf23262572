// Interleaved tiles, created by `interleave` of the DSL: a reshape that merges pairs into the
// lanes.
//
//   %pairs = select(odd index of the last dimension, broadcast %b, broadcast %a) : N x 2
//   %woven = reshape %pairs                                                     : 2N
//
// Direct evaluation of W contiguous elements of %woven would evaluate %a and %b at W indices each,
// and each index twice. Instead, W/2 contiguous elements of %a and of %b are evaluated, and a
// shuffle interleaves them. Nested interleaves evaluate common subexpressions once: Philox computes
// the words of four contiguous elements in one call.
#include <functional>

#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

// Returns true if `tile` can be evaluated at one of the two indices along `dim` for half the cost
// of both. It is false for tiles in memory, where the evaluation would read every second element.
static bool isChosenByIndex(Value tile, int64_t dim, const Plan& plan) {
  auto type = dyn_cast<RankedTensorType>(tile.getType());
  if (!type || type.getDimSize(dim) == 1) return true;
  Operation* op = tile.getDefiningOp();
  if (!op || plan.bufferOf(tile)) return false;
  if (isa<arith::ConstantOp, tile::SplatOp, tile::MakeRangeOp>(op)) return true;
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return isChosenByIndex(expand.getSource(), dim - (static_cast<int64_t>(expand.getAxis()) < dim),
                           plan);
  if (!isa<tile::BroadcastOp>(op) && !isElementwise(op)) return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isChosenByIndex(operand, dim, plan); });
}

bool TileLowering::isInterleaved(tile::ReshapeOp op) {
  ArrayRef<int64_t> woven = cast<RankedTensorType>(op.getType()).getShape();
  ArrayRef<int64_t> pairs = cast<RankedTensorType>(op.getSource().getType()).getShape();
  return pairs.size() == woven.size() + 1 && pairs.back() == 2 &&
         pairs.drop_back(2) == woven.drop_back() &&
         isChosenByIndex(op.getSource(), static_cast<int64_t>(woven.size()), plan);
}

// Returns the depth of nested interleaves in the group, at most 2. It is 0 if the group has other
// sinks than stores to partitions, because wider registers would reorder a reduction's elements.
int TileLowering::timesInterleaved(const Group& group) {
  llvm::DenseMap<Value, int> known;
  std::function<int(Value)> depthOf = [&](Value tile) {
    Operation* op = tile.getDefiningOp();
    if (!op || !isa<RankedTensorType>(tile.getType())) return 0;
    if (auto found = known.find(tile); found != known.end()) return found->second;
    int depth = 0;
    if (!plan.bufferOf(tile))
      for (Value operand : op->getOperands()) depth = std::max(depth, depthOf(operand));
    if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) depth += isInterleaved(reshape);
    return known[tile] = depth;
  };
  int depth = 0;
  for (const Sink& sink : group.sinks) {
    if (sink.kind != SinkKind::storeTile) return 0;
    depth = std::max(depth, depthOf(cast<tile::StoreTileOp>(sink.op).getValue()));
  }
  return std::min(depth, 2);
}

std::optional<Evaluated> TileLowering::evaluateInterleaved(tile::ReshapeOp op,
                                                           const Coords& coords) {
  if (coords.back().lanes < 4 || !isInterleaved(op)) return {};
  for (const Coord& other : ArrayRef<Coord>(coords).drop_back())
    if (other.lanes || other.scattered) return {};
  Coords half = coords;
  Value& base = nest->halves[half.back().base];
  const int64_t lanes = half.back().lanes /= 2;
  atDepth(half.back().depth, [&] {
    if (!base) base = arith::DivUIOp::create(b, loc, half.back().base, i64(2));
  });
  half.back().base = base;

  const int64_t whole = std::exchange(nest->lanes, lanes);
  Evaluated result;
  SmallVector<Value> parts;
  SmallVector<int32_t> woven;
  for (int64_t odd : {0, 1}) {
    Coord second;
    if (odd) atDepth(0, [&] { second.base = i64(1); });
    half.push_back(second);
    const Evaluated part = evaluate(op.getSource(), half);
    half.pop_back();
    parts.push_back(part.value);
    result.depth = std::max(result.depth, part.depth);
  }
  for (int64_t lane = 0; lane < lanes; ++lane)
    woven.append({static_cast<int32_t>(lane), static_cast<int32_t>(lanes + lane)});
  atDepth(result.depth, [&] {
    for (Value& part : parts) part = registers.splat(loc, part, lanes);
    result.value = LLVM::ShuffleVectorOp::create(b, loc, parts[0], parts[1], woven);
  });
  nest->lanes = whole;
  return result;
}

}  // namespace ligerdsl::compiler::cpu
