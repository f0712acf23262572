#include "compiler/pipeline/loop_ring.h"

#include "compiler/analysis/row_alignment.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/dialect/layout_attr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler {

LoopRing::LoopRing(scf::ForOp loop, bool wgmma)
    : at{loop}, plan(*planOf(loop)), tiles(takeTiles(loop)), slots(plan.stages) {
  for (const LoadedTile& tile : tiles.ahead)
    if (!tile.inSlot) small.push_back(tile.load);
  parts = LoopTiles::partsOf(tiles.ahead);
  if (wgmma) dots.emplace(loop, tiles, byTma());
  overlapping = dots && dots->mayOverlap() && slots > 2;
}

Value LoopRing::number(OpBuilder& builder, int64_t value) {
  return arith::ConstantOp::create(builder, at.loop.getLoc(), builder.getI32IntegerAttr(value));
}

Value LoopRing::createRing(OpBuilder& builder, ArrayRef<LoadedTile> parts, int64_t slots,
                           Copies copies) {
  SmallVector<Type> types =
      llvm::map_to_vector(parts, [&](const LoadedTile& part) { return Type(tiles.slotOf(part)); });
  const auto by = copies == Copies::tma  ? tgpu::RingFill::tensor
                  : tiles.haveOperands() ? tgpu::RingFill::async
                                         : tgpu::RingFill::asyncOwn;
  auto type = tgpu::RingType::get(builder.getContext(), slots, by, types);
  return tgpu::RingOp::create(builder, at.loop.getLoc(), type, DenseI64ArrayAttr());
}

void LoopRing::create(OpBuilder& builder) {
  ring = createRing(builder, parts, slots, plan.copies);
}

void LoopRing::fillOnce(OpBuilder& builder, Value iteration) {
  if (tiles.once.empty()) return;
  const SmallVector<LoadedTile> onceParts = LoopTiles::partsOf(tiles.once);
  onceRing = createRing(builder, onceParts, 1, Copies::threads);
  const auto views = llvm::map_to_vector(
      loadsOf(onceParts), [](tile::LoadTileOp load) -> Value { return load.getView(); });
  fill(builder, onceRing, onceParts, views, iteration, number(builder, 0), /*open=*/true, {}, {});
}

void LoopRing::fill(OpBuilder& builder, Value iteration, Value slot) {
  Value wanted;
  if (byTma())
    wanted = arith::CmpIOp::create(builder, at.loop.getLoc(), arith::CmpIPredicate::slt, iteration,
                                   at.loop.getUpperBound());
  const auto views = llvm::map_to_vector(
      loadsOf(parts), [](tile::LoadTileOp load) -> Value { return load.getView(); });
  fill(builder, ring, parts, views, iteration, slot, /*open=*/false, {}, wanted);
}

void LoopRing::fill(OpBuilder& builder, ValueRange views, Value iteration, Value slot,
                    const IRMapping& values, Value wanted) {
  fill(builder, ring, parts, views, iteration, slot, /*open=*/false, values, wanted);
}

// If `open`, the fill shares the commit group of the next fill. TMA copies have no commit groups.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<LoadedTile> parts, ValueRange views,
                    Value iteration, Value slot, bool open, const IRMapping& values, Value wanted) {
  SmallVector<int64_t> shapes, withOffset;
  SmallVector<Attribute> layouts;
  const SmallVector<tile::LoadTileOp> loads = loadsOf(parts);
  for (size_t part = 0; part < loads.size(); ++part) {
    tile::LoadTileOp load = loads[part];
    const auto type = cast<RankedTensorType>(load.getType());
    llvm::append_range(shapes, load.getTileShape());
    if (hasLayout(type) && !wanted) layouts.push_back(type.getEncoding());
    if (load.getAlignmentOffset()) withOffset.push_back(part);
  }
  Value count;
  if (wanted)
    count = arith::ExtUIOp::create(builder, at.loop.getLoc(), builder.getI32Type(), wanted);
  auto op = tgpu::RingFillOp::create(builder, at.loop.getLoc(), ring, slot, iteration, count, views,
                                     shapes,
                                     layouts.empty() ? ArrayAttr() : builder.getArrayAttr(layouts),
                                     TypedAttr(), tile::EvictHint::normal, open && !byTma());
  if (!withOffset.empty()) op->setAttr(kOffsetPartsAttr, builder.getDenseI64ArrayAttr(withOffset));
  Block& body =
      op.getPosition().empty() ? op.getPosition().emplaceBlock() : op.getPosition().front();
  Value position = body.addArgument(iteration.getType(), at.loop.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  IRMapping mapping = at.indicesAt(inside, loads, position, values);
  SmallVector<Value> indices;
  for (tile::LoadTileOp load : loads)
    for (Value index : load.getIndices()) indices.push_back(mapping.lookupOrDefault(index));
  for (int64_t part : withOffset) {
    tile::LoadTileOp load = loads[part];
    indices.push_back(mapping.lookupOrDefault(load.getAlignmentOffset()));
  }
  tgpu::YieldOp::create(inside, at.loop.getLoc(), indices);
}

// Returns the next slot of the ring, or the previous one if `step` is -1.
Value LoopRing::nextSlot(OpBuilder& builder, Value slot, int64_t step) {
  Location loc = at.loop.getLoc();
  if (slots == 2) return arith::XOrIOp::create(builder, loc, slot, number(builder, 1));
  Value last = number(builder, step > 0 ? slots - 1 : 0),
        first = number(builder, step > 0 ? 0 : slots - 1);
  Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, slot, last);
  Value moved = arith::AddIOp::create(builder, loc, slot, number(builder, step));
  return arith::SelectOp::create(builder, loc, wraps, first, moved);
}

SmallVector<Value> LoopRing::firstPlace(OpBuilder& builder) {
  return SmallVector<Value>(placeValues(), number(builder, 0));
}

SmallVector<Value> LoopRing::nextPlace(OpBuilder& builder, ValueRange place) {
  SmallVector<Value> next{nextSlot(builder, place[0], 1)};
  if (!byTma()) return next;
  const Location loc = at.loop.getLoc();
  Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place[0],
                                      number(builder, slots - 1));
  Value flip = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), wraps);
  next.push_back(arith::XOrIOp::create(builder, loc, place[1], flip));
  return next;
}

scf::ForOp LoopRing::replaceLoop(
    IRRewriter& rewriter, ValueRange inits,
    llvm::function_ref<SmallVector<Value>(ArrayRef<BlockArgument>)> addYields) {
  SmallVector<NamedAttribute> attributes(at.loop->getDiscardableAttrs());
  auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> carried) {
    return addYields(carried);
  };
  auto replaced = cast<scf::ForOp>(*at.loop.replaceWithAdditionalYields(
      rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields));
  replaced->setDiscardableAttrs(attributes);
  return at.loop = replaced;
}

void LoopRing::replaceDots() {
  if (dots) dots->replace(at.loop, overlapping);
}

// Waits until at most `pending` fills are in flight, and synchronises the threads if they read each
// other's copies. TMA copies need only the synchronisation, because awaitSlot waits for each slot
// before its read.
Operation* LoopRing::await(OpBuilder& builder, Location loc, int64_t pending) {
  if (byTma()) return tgpu::RingReleaseOp::create(builder, loc, ring);
  return tgpu::RingAwaitOp::create(builder, loc, ring, Value(), Value(),
                                   builder.getI32IntegerAttr(pending), dots && !dots->empty());
}

// Waits for all fills after the loop. Nothing reads the slots then, so other buffers may use their
// memory.
void LoopRing::empty(OpBuilder& builder, Location loc) {
  await(builder, loc, 0)->setAttr(kEmptiedAttr, builder.getUnitAttr());
}

void LoopRing::awaitSlot(OpBuilder& builder, ValueRange place) {
  tgpu::RingAwaitOp::create(builder, at.loop.getLoc(), ring, place[0], place[1], IntegerAttr(),
                            /*for_wgmma=*/false);
}

// Returns the reduction before which the copies start, or null if they start at the top of the
// body.
tile::ReduceOp LoopRing::firstReduction() {
  auto reductions = at.loop.getBody()->getOps<tile::ReduceOp>();
  return plan.copiesFirst || reductions.empty() ? tile::ReduceOp() : *reductions.begin();
}

// Returns the slot to fill: the one that the previous iteration read. `slot` is the current one.
Value LoopRing::toBeFilled(OpBuilder& builder, Value slot) {
  return nextSlot(builder, slot, slots == 2 ? 1 : -1);
}

// Emits the wait for this iteration's copies, the copies for the latest iteration with a free slot,
// and the reads. If wgmmas overlap, the copies start after this iteration's wgmmas. The previous
// iteration's wgmmas have then completed, so their slot is free. Copies by threads for the next
// iteration are awaited at that point; TMA copies are awaited in the iteration that reads them.
SmallVector<Value> LoopRing::fetchNext(ArrayRef<BlockArgument> carried) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  const SmallVector<Value> place(carried.take_front(placeValues()));
  if (byTma()) awaitSlot(rewriter, place);
  if (!overlapping) await(rewriter, loop.getLoc(), slots - 2);
  SmallVector<Value> yielded = nextPlace(rewriter, place);
  Value slot = place[0], next = yielded[0], iteration = at.ahead(rewriter, loop.getInductionVar());
  llvm::append_range(yielded, at.loadAt(rewriter, small, iteration));
  for (int64_t i = 2; i < slots; ++i) iteration = at.ahead(rewriter, iteration);
  if (tile::ReduceOp reduce = firstReduction()) rewriter.setInsertionPoint(reduce);
  if (overlapping) {
    rewriter.setInsertionPointAfter(dots->last());
    await(rewriter, loop.getLoc(), slots - 3);
  }
  fill(rewriter, iteration, slots == 2 ? next : toBeFilled(rewriter, slot));
  for (auto [load, value] : llvm::zip_equal(small, carried.drop_front(placeValues())))
    rewriter.replaceOp(load, value);
  readParts(rewriter, slot);
  if (!tiles.once.empty()) {
    rewriter.setInsertionPointToStart(loop.getBody());
    readParts(rewriter, onceRing, tiles.once, number(rewriter, 0));
  }
  return yielded;
}

void LoopRing::readParts(IRRewriter& rewriter, Value slot) {
  readParts(rewriter, ring, tiles.ahead, slot);
}

// Returns the index of the row's first element in a loaded tile, or null if no element is before
// the row. Only a row's first tile has elements before it.
static Value firstOfRow(OpBuilder& builder, tile::LoadTileOp load) {
  Value offset = load.getAlignmentOffset(), index = load.getIndices().back();
  if (!offset || matchPattern(index, m_Zero())) return offset;
  const Location loc = load.getLoc();
  Value zero = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(index.getType(), 0)),
        none = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, index, zero);
  return arith::SelectOp::create(builder, loc, isFirst, offset, none);
}

// Replaces loads by reads of the slot. A dot reads it in its own layout: the conversion vanishes,
// and a transpose gets that layout.
void LoopRing::readParts(IRRewriter& rewriter, Value ring, ArrayRef<LoadedTile> all, Value slot) {
  const SmallVector<LoadedTile> parts = LoopTiles::partsOf(all);
  SetVector<Operation*> loads;
  for (LoadedTile tile : all) {
    if (!tile.inSlot) continue;
    loads.insert(tile.load);
    rewriter.setInsertionPoint(tile.separate ? tile.operand.getOperation()
                                             : tile.load.getOperation());
    Value first = firstOfRow(rewriter, tile.load);
    auto op = tgpu::RingReadOp::create(rewriter, tile.load.getLoc(), tile.readType(), ring, slot,
                                       LoopTiles::partOf(parts, tile), first, TypedAttr(),
                                       DenseI64ArrayAttr());
    if (first) op->setAttr(kBeforeLimitAttr, rewriter.getUnitAttr());
    Value read = op;
    if (!tile.operand) {
      rewriter.replaceAllUsesWith(tile.load.getResult(), read);
      continue;
    }
    tile::PermuteOp transpose = tile.permute();
    if (transpose) {
      if (!tile.separate) rewriter.setInsertionPoint(transpose);
      read = tile::PermuteOp::create(rewriter, transpose.getLoc(), tile.operand.getType(), read,
                                     transpose.getPermutationAttr());
    }
    rewriter.replaceOp(tile.operand, read);
    if (transpose && transpose.use_empty()) rewriter.eraseOp(transpose);
  }
  for (Operation* load : loads) rewriter.eraseOp(load);
}

}  // namespace ligerdsl::compiler
