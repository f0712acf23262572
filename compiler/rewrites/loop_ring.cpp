#include "compiler/rewrites/loop_ring.h"

#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/swizzle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {

bool LoopRing::isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) const {
  return a.getView() == b.getView() && a.getIndices() == b.getIndices() && a.getTileShape() == b.getTileShape() &&
         factors.loadedType(a) == factors.loadedType(b);
}

SmallVector<tile::LoadTileOp> LoopRing::partsOf(ArrayRef<tile::LoadTileOp> all) const {
  SmallVector<tile::LoadTileOp> parts;
  for (tile::LoadTileOp load : all)
    if (factors.canBeStaged(load) && llvm::none_of(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }))
      parts.push_back(load);
  return parts;
}

tgpu::MemDescType LoopRing::slotOf(tile::LoadTileOp load) const {
  RankedTensorType type = factors.loadedType(load);
  int64_t swizzle = 0;
  const bool multiplied =
      llvm::any_of(factors.all(), [&](tile::LoadTileOp factor) { return isSameTile(factor, load); });
  if (multiplied && type.getRank() == 2)
    swizzle = Swizzle::widest(type.getDimSize(0), type.getDimSize(1) * sharedElementBytes(type.getElementType()));
  if (hasLayout(type)) type = partOfCta(type).value_or(type);
  return tgpu::MemDescType::get(type.getContext(), type.getShape(), type.getElementType(), 0, swizzle);
}

Value LoopRing::number(OpBuilder& builder, int64_t value) {
  return arith::ConstantOp::create(builder, at.loop.getLoc(), builder.getI32IntegerAttr(value));
}

// Of a load that becomes copies (set_eviction_policy.cpp says why these take no policy).
void LoopRing::remarkHints(tile::LoadTileOp load) {
  const bool policy = load.getEvict() == tile::EvictHint::first || load.getEvict() == tile::EvictHint::last;
  if (!policy && load.getCache() == tile::CacheHint::normal) return;
  at.remark(load) << "its " << (policy ? "eviction policy" : "cache hint")
                  << " is not followed: asynchronous copies to shared memory take none; leave it out, or use smaller "
                     "tiles or fewer stages, which wait in registers";
}

Value LoopRing::ringOf(OpBuilder& builder, ArrayRef<tile::LoadTileOp> parts, int64_t slots) {
  for (tile::LoadTileOp load : parts) remarkHints(load);
  SmallVector<Type> types = llvm::map_to_vector(parts, [&](tile::LoadTileOp load) { return Type(slotOf(load)); });
  const auto by = factors.empty() ? tgpu::RingFill::asyncOwn : tgpu::RingFill::async;
  auto type = tgpu::RingType::get(builder.getContext(), slots, by, types);
  return tgpu::RingOp::create(builder, at.loop.getLoc(), type, DenseI64ArrayAttr());
}

// Starts the copies of iteration `iteration`.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts, Value iteration, Value slot,
                    bool open) {
  SmallVector<Value> views;
  SmallVector<int64_t> shapes;
  SmallVector<Attribute> layouts;
  for (tile::LoadTileOp load : parts) {
    const RankedTensorType type = factors.loadedType(load);
    views.push_back(load.getView());
    llvm::append_range(shapes, load.getTileShape());
    if (hasLayout(type)) layouts.push_back(type.getEncoding());
  }
  auto op = tgpu::RingFillOp::create(builder, at.loop.getLoc(), ring, slot, iteration, Value(), views, shapes,
                                     layouts.empty() ? ArrayAttr() : builder.getArrayAttr(layouts), TypedAttr(),
                                     tile::EvictHint::normal, open);
  Block& body = op.getPosition().empty() ? op.getPosition().emplaceBlock() : op.getPosition().front();
  Value position = body.addArgument(iteration.getType(), at.loop.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  IRMapping mapping = at.indicesAt(inside, parts, position);
  SmallVector<Value> indices;
  for (tile::LoadTileOp load : parts)
    for (Value index : load.getIndices()) indices.push_back(mapping.lookupOrDefault(index));
  tgpu::YieldOp::create(inside, at.loop.getLoc(), indices);
}

// The slot that follows in turn, or the one before it.
Value LoopRing::nextSlot(OpBuilder& builder, Value slot, int64_t turn) {
  Location loc = at.loop.getLoc();
  if (slots == 2) return arith::XOrIOp::create(builder, loc, slot, number(builder, 1));
  Value last = number(builder, turn > 0 ? slots - 1 : 0), first = number(builder, turn > 0 ? 0 : slots - 1);
  Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, slot, last);
  Value moved = arith::AddIOp::create(builder, loc, slot, number(builder, turn));
  return arith::SelectOp::create(builder, loc, wraps, first, moved);
}

// The loop carries the slot's number and what the loads that are not staged give.
scf::ForOp LoopRing::stage(ArrayRef<tile::LoadTileOp> loads, ArrayRef<tile::LoadTileOp> once, int64_t count) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop);
  slots = count;
  llvm::append_range(stationary, once);
  const auto inSlot = [&](Value factor) {
    if (auto permute = factor.getDefiningOp<tile::PermuteOp>()) factor = permute.getSource();
    auto load = factor.getDefiningOp<tile::LoadTileOp>();
    return load && factors.contains(load) && slotOf(load).getSwizzle() != 0;
  };
  if (options.wgmma) products.emplace(loop, inSlot);
  if (products && products->mayOverlap() && slots > 2) overlapping = true;
  for (tile::LoadTileOp load : loads) (factors.canBeStaged(load) ? staged : small).push_back(load);
  factors.dropOriginals();
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  ring = ringOf(rewriter, parts, slots);
  Value iteration = loop.getLowerBound(), zero = number(rewriter, 0);
  if (!stationary.empty()) {
    stationaryRing = ringOf(rewriter, partsOf(stationary), 1);
    fill(rewriter, stationaryRing, partsOf(stationary), iteration, zero, /*open=*/true);
  }
  SmallVector<Value> inits{zero};
  llvm::append_range(inits, at.loadAt(rewriter, small, iteration));
  for (int64_t slot = 0; slot < slots - 1; ++slot) {
    if (slot > 0) iteration = at.ahead(rewriter, iteration);
    fill(rewriter, ring, parts, iteration, number(rewriter, slot), /*open=*/false);
  }

  if (overlapping) await(rewriter, loop.getLoc(), slots - 2);

  SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
  auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> carried) { return fetchNext(carried); };
  auto replaced = *loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields);
  replaced->setDiscardableAttrs(attributes);
  rewriter.setInsertionPointAfter(replaced);
  await(rewriter, replaced->getLoc(), 0);
  if (products) products->replace(cast<scf::ForOp>(replaced), overlapping);
  return cast<scf::ForOp>(replaced);
}

void LoopRing::await(OpBuilder& builder, Location loc, int64_t pending) {
  tgpu::RingAwaitOp::create(builder, loc, ring, Value(), Value(), builder.getI32IntegerAttr(pending),
                            products && !products->empty());
}

// Null where there is none, or where the copies start at the top.
tile::ReduceOp LoopRing::firstReduction() {
  auto reductions = at.loop.getBody()->getOps<tile::ReduceOp>();
  return options.early || options.ctas > 1 || !factors.empty() || reductions.empty() ? tile::ReduceOp()
                                                                                      : *reductions.begin();
}

// In the body: waits for the oldest copies, starts those of the last iteration that there is room for, reads. Returns
// what the loop yields for what it carries. Products that overlap are started first: behind them those of the turn before are
// over, whose slot is free, and the copies of the next one are waited for.
SmallVector<Value> LoopRing::fetchNext(ArrayRef<BlockArgument> carried) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  if (!overlapping) await(rewriter, loop.getLoc(), slots - 2);
  Value slot = carried[0], next = nextSlot(rewriter, slot, 1), iteration = at.ahead(rewriter, loop.getInductionVar());
  SmallVector<Value> yielded{next};
  llvm::append_range(yielded, at.loadAt(rewriter, small, iteration));
  for (int64_t i = 2; i < slots; ++i) iteration = at.ahead(rewriter, iteration);
  if (tile::ReduceOp reduce = firstReduction()) rewriter.setInsertionPoint(reduce);
  if (overlapping) {
    rewriter.setInsertionPointAfter(products->last());
    await(rewriter, loop.getLoc(), slots - 3);
  }
  fill(rewriter, ring, partsOf(staged), iteration, slots == 2 ? next : nextSlot(rewriter, slot, -1), /*open=*/false);
  for (auto [load, value] : llvm::zip_equal(small, carried.drop_front())) rewriter.replaceOp(load, value);
  readParts(rewriter, ring, staged, slot);
  if (!stationary.empty()) {
    rewriter.setInsertionPointToStart(loop.getBody());
    readParts(rewriter, stationaryRing, stationary, number(rewriter, 0));
  }
  return yielded;
}

void LoopRing::readParts(IRRewriter& rewriter, Value ring, ArrayRef<tile::LoadTileOp> all, Value slot) {
  const SmallVector<tile::LoadTileOp> parts = partsOf(all);
  SmallVector<unsigned> numbers;
  for (tile::LoadTileOp load : all)
    numbers.push_back(llvm::find_if(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }) -
                      parts.begin());
  for (auto [load, part] : llvm::zip_equal(SmallVector<tile::LoadTileOp>(all), numbers)) {
    rewriter.setInsertionPoint(load);
    rewriter.replaceOpWithNewOp<tgpu::RingReadOp>(load, load.getType(), ring, slot, part, Value(), TypedAttr(),
                                                  DenseI64ArrayAttr());
  }
}

}  // namespace ligerdsl::compiler
