// Evaluates tile expressions at one index of a loop nest, or at W contiguous indices.
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static int depthOf(const Coords& coords) {
  int depth = 0;
  for (const Coord& coord : coords) depth = std::max(depth, coord.depth);
  return depth;
}

static bool anyLanes(const Coords& coords) {
  return llvm::any_of(coords, [](const Coord& c) { return c.lanes || c.scattered; });
}

Coords TileLowering::identity() {
  Coords coords;
  for (size_t dim = 0; dim < nest->shape.size(); ++dim) {
    const int64_t lanes =
        static_cast<int>(dim) == nest->laneDim && nest->lanes > 1 ? nest->lanes : 0;
    coords.push_back(nest->indices[dim] ? Coord{nest->indices[dim], lanes, false, nest->depths[dim]}
                                        : Coord{});
  }
  return coords;
}

//===-- Evaluation ------------------------------------------------------------===//

void TileLowering::remember(Value tile, const Coords& coords, Evaluated result) {
  Nest::Memo& memo = result.depth < nest->inner ? nest->outer : nest->body;
  memo[tile].push_back({coords, result});
}

Evaluated TileLowering::evaluate(Value tile, const Coords& coords) {
  if (!isa<RankedTensorType>(tile.getType())) return {scalar(tile), 0};
  for (Nest::Memo* memo : {&nest->body, &nest->outer})
    if (auto found = memo->find(tile); found != memo->end())
      for (auto& [at, result] : found->second)
        if (at == coords) return result;
  Evaluated result;
  if (Buffer* buffer = plan.bufferOf(tile)) {
    result.depth = depthOf(coords);
    atDepth(result.depth, [&] { result.value = bufferLoad(buffer, coords); });
  } else {
    result = evaluateDefinition(tile, coords);
  }
  remember(tile, coords, result);
  return result;
}

Evaluated TileLowering::evaluateDefinition(Value tile, const Coords& coords) {
  Operation* op = tile.getDefiningOp();
  if (auto number = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(number.getValue());
    if (splat) {
      Evaluated result;
      atDepth(0, [&] {
        result.value = registers.constant(loc, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
      });
      return result;
    }
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) return {scalar(splat.getSource()), 0};
  if (auto range = dyn_cast<tile::MakeRangeOp>(op)) return evaluateRange(range, coords);
  if (auto load = dyn_cast<tile::LoadTileOp>(op)) return evaluateLoadTile(load, coords);
  if (auto load = dyn_cast<tile::LoadOp>(op)) return evaluateGather(load, coords);
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    if (std::optional<Evaluated> woven = evaluateInterleaved(reshape, coords)) return *woven;
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(op))
    return evaluate(op->getOperand(0), sourceCoords(op, coords));
  if (auto gather = dyn_cast<tile::GatherOp>(op)) return evaluateTileGather(gather, coords);
  if (auto shuffle = dyn_cast<tile::ShuffleXorOp>(op)) return evaluateShuffleXor(shuffle, coords);
  if (isElementwise(op)) return evaluateElementwise(op, coords);
  op->emitOpError("has no lowering for the CPU");
  broken = true;
  return {LLVM::PoisonOp::create(b, loc, registerType(getElementTypeOrSelf(tile.getType()))),
          nest->inner};
}

Evaluated TileLowering::evaluateElementwise(Operation* op, const Coords& coords) {
  SmallVector<Value> operands;
  Evaluated result;
  int64_t lanes = 1;
  for (Value operand : op->getOperands()) {
    Evaluated value = evaluate(operand, coords);
    operands.push_back(value.value);
    result.depth = std::max(result.depth, value.depth);
    if (isa<VectorType>(value.value.getType())) lanes = nest->lanes;
  }
  atDepth(result.depth, [&] {
    result.value = registers.emit(op, operands, lanes);
    if (result.value) return;
    broken = true;
    result.value = LLVM::PoisonOp::create(
        b, loc, registerType(getElementTypeOrSelf(op->getResult(0).getType()), lanes));
  });
  return result;
}

Evaluated TileLowering::evaluateRange(tile::MakeRangeOp op, const Coords& coords) {
  const Coord& coord = coords[0];
  Evaluated result{{}, coord.depth};
  atDepth(result.depth, [&] {
    if (coord.scattered) {
      result.value = arith::TruncIOp::create(b, loc, VectorType::get({nest->lanes}, b.getI32Type()),
                                             coord.base);
      return;
    }
    Value base = coord.base
                     ? arith::TruncIOp::create(b, loc, b.getI32Type(), coord.base).getResult()
                     : arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0)).getResult();
    result.value = base;
    if (coord.lanes)
      result.value = arith::AddIOp::create(b, loc, registers.splat(loc, base, nest->lanes),
                                           iota(b.getI32Type(), nest->lanes));
  });
  return result;
}

Evaluated TileLowering::evaluateLoadTile(tile::LoadTileOp op, const Coords& coords) {
  Evaluated result{{}, depthOf(coords)};
  atDepth(result.depth, [&] {
    const TileAccess& access = accesses[op];
    Guard guard = guardOf(op, coords, result.depth);
    Address from = address(access.origin, access.element, coords, access.strides);
    result.value =
        load(from, access.element, guard, pad(op), anyLanes(coords) ? nest->lanes : 1, 0);
    if (nest->inBounds && nest->proved.contains(op) && result.depth == nest->inner)
      prefetch(op, from);
  });
  return result;
}

Evaluated TileLowering::evaluateGather(tile::LoadOp op, const Coords& coords) {
  Evaluated result{{}, depthOf(coords)};
  Type element = getElementTypeOrSelf(op.getType());
  Evaluated mask, other;
  if (op.getMask()) mask = evaluate(op.getMask(), coords);
  if (op.getOther()) other = evaluate(op.getOther(), coords);
  atDepth(result.depth, [&] {
    Guard guard;
    if (mask.value)
      (isa<VectorType>(mask.value.getType()) ? guard.mask : guard.condition) = mask.value;
    Value otherwise = other.value ? other.value : registers.constant(loc, b.getZeroAttr(element));
    Address from = pointersAt(op.getPtr(), element, coords);
    result.value = load(from, element, guard, otherwise, anyLanes(coords) ? nest->lanes : 1, 0);
  });
  return result;
}

//===-- Moves along an axis: the source is in a buffer ------------------------===//

Evaluated TileLowering::evaluateTileGather(tile::GatherOp op, Coords coords) {
  Evaluated index = evaluate(op.getIndex(), coords);
  const int64_t size = cast<RankedTensorType>(op.getSource().getType()).getDimSize(op.getAxis());
  Coord& at = coords[op.getAxis()];
  at = {index.value, /*lanes=*/0, /*scattered=*/isa<VectorType>(index.value.getType()),
        index.depth};
  atDepth(index.depth, [&] {
    Type type = index.value.getType(), element = getElementTypeOrSelf(type);
    Value last = registers.constant(loc, IntegerAttr::get(element, size - 1));
    if (at.scattered) last = registers.splat(loc, last, nest->lanes);
    at.base = arith::MinUIOp::create(b, loc, index.value, last);
    if (element == b.getI64Type()) return;
    Type wide =
        at.scattered ? Type(VectorType::get({nest->lanes}, b.getI64Type())) : b.getI64Type();
    at.base = arith::ExtUIOp::create(b, loc, wide, at.base);
  });
  return evaluate(op.getSource(), coords);
}

Evaluated TileLowering::evaluateShuffleXor(tile::ShuffleXorOp op, Coords coords) {
  Coord& at = coords[op.getAxis()];
  const int64_t mask = op.getMask(), inRegister = at.lanes ? mask & (nest->lanes - 1) : 0;
  // A shuffle of the loaded register exchanges lanes, with all their coordinates. The coordinates
  // along the other axes must therefore be the same in all lanes.
  const auto varies = [&](const Coord& c) { return &c != &at && (c.lanes || c.scattered); };
  if (inRegister != 0 && llvm::any_of(coords, varies)) {
    op.emitOpError("cannot exchange elements along axis ")
        << op.getAxis() << ": the lanes of a register also differ along another axis";
    broken = true;
  }
  atDepth(at.depth, [&] {
    if (mask == inRegister) return;
    Value flipped = i64(mask - inRegister);
    if (at.scattered) flipped = registers.splat(loc, flipped, nest->lanes);
    at.base = at.base ? arith::XOrIOp::create(b, loc, at.base, flipped).getResult() : flipped;
  });
  Evaluated result = evaluate(op.getSource(), coords);
  if (inRegister == 0 || !isa<VectorType>(result.value.getType())) return result;
  SmallVector<int32_t> picked;
  for (int64_t lane = 0; lane < nest->lanes; ++lane)
    picked.push_back(static_cast<int32_t>(lane ^ inRegister));
  atDepth(result.depth, [&] {
    result.value = LLVM::ShuffleVectorOp::create(b, loc, result.value, result.value, picked);
  });
  return result;
}

//===-- Index maps of the shape ops -------------------------------------------===//

Coords TileLowering::sourceCoords(Operation* op, const Coords& coords) {
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    Coords source = coords;
    source.erase(source.begin() + expand.getAxis());
    return source;
  }
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    Coords source = coords;
    for (auto [coord, size] :
         llvm::zip(source, cast<RankedTensorType>(broadcast.getSource().getType()).getShape()))
      if (size == 1) coord = Coord{};
    return source;
  }
  if (auto permute = dyn_cast<tile::PermuteOp>(op)) {
    Coords source(coords.size());
    for (auto [i, from] : llvm::enumerate(permute.getPermutation())) source[from] = coords[i];
    return source;
  }
  return reshapeCoords(cast<tile::ReshapeOp>(op), coords);
}

// Matches runs of result dimensions with source dimensions of the same total size. Each run has
// its own linear index. For example, a reshape of 8 x 12 to 8 x 3 x 4 has the runs 8 and 3 x 4.
// Lanes along a run's last result dimension stay contiguous if its last source dimension is a
// multiple of W.
Coords TileLowering::reshapeCoords(tile::ReshapeOp op, const Coords& coords) {
  ArrayRef<int64_t> from = cast<RankedTensorType>(op.getType()).getShape();
  ArrayRef<int64_t> to = cast<RankedTensorType>(op.getSource().getType()).getShape();
  Coords source(to.size());
  size_t r = 0, s = 0;
  while (r < from.size() || s < to.size()) {
    size_t firstR = r, firstS = s;
    int64_t sizeR = r < from.size() ? from[r++] : 1, sizeS = s < to.size() ? to[s++] : 1;
    while (sizeR != sizeS) sizeR < sizeS ? sizeR *= from[r++] : sizeS *= to[s++];
    SmallVector<size_t> inR, inS;
    for (size_t i = firstR; i < r; ++i)
      if (from[i] > 1) inR.push_back(i);
    for (size_t i = firstS; i < s; ++i)
      if (to[i] > 1) inS.push_back(i);
    if (inR.size() == 1 && inS.size() == 1) {
      source[inS[0]] = coords[inR[0]];
      continue;
    }
    if (inR.empty()) continue;

    Coord line;
    for (size_t i : inR) line.depth = std::max(line.depth, coords[i].depth);
    atDepth(line.depth, [&] {
      int64_t lanes = nest->lanes, stride = 1;
      Value offset = i64(0), vector;
      for (size_t i : llvm::reverse(inR)) {
        const Coord& coord = coords[i];
        if (coord.scattered || (coord.lanes && (stride != 1 || to[inS.back()] % lanes != 0))) {
          Value each = coord.base;
          if (coord.lanes)
            each = arith::AddIOp::create(b, loc, registers.splat(loc, coord.base, lanes),
                                         iota(b.getI64Type(), lanes));
          each = arith::MulIOp::create(b, loc, each, registers.splat(loc, i64(stride), lanes));
          vector = vector ? arith::AddIOp::create(b, loc, vector, each).getResult() : each;
        } else if (coord.base) {
          offset = add(offset, mul(coord.base, i64(stride)));
          line.lanes = std::max(line.lanes, coord.lanes);
        }
        stride *= from[i];
      }
      line.base = offset;
      if (vector) {
        line.base = arith::AddIOp::create(b, loc, vector, registers.splat(loc, offset, lanes));
        line.scattered = true;
      }
      int64_t below = 1;
      for (size_t i : llvm::reverse(inS)) {
        Coord coord{line.base, below == 1 ? line.lanes : 0, line.scattered, line.depth};
        auto number = [&](int64_t n) {
          return line.scattered ? registers.splat(loc, i64(n), lanes) : i64(n);
        };
        if (below > 1) coord.base = b.createOrFold<arith::DivUIOp>(loc, coord.base, number(below));
        if (i != inS.front())
          coord.base = b.createOrFold<arith::RemUIOp>(loc, coord.base, number(to[i]));
        source[i] = coord;
        below *= to[i];
      }
    });
  }
  return source;
}

}  // namespace ligerdsl::compiler::cpu
