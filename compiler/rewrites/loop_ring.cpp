#include "compiler/rewrites/loop_ring.h"

#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/analysis/sliced_view.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/swizzle.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "program/artifact.h"

using namespace mlir;

namespace ligerdsl::compiler {

bool LoopRing::isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) const {
  return a.getView() == b.getView() && a.getIndices() == b.getIndices() && a.getTileShape() == b.getTileShape() &&
         factors.loadedType(a) == factors.loadedType(b);
}

SmallVector<tile::LoadTileOp> LoopRing::partsOf(ArrayRef<tile::LoadTileOp> all) const {
  SmallVector<tile::LoadTileOp> parts;
  for (tile::LoadTileOp load : all)
    if (factors.canBeStaged(load) &&
        llvm::none_of(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }))
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
  // A factor's copies go where the product wants it; others are read as they are loaded.
  const auto dealt = cast<RankedTensorType>(load.getType());
  if (hasLayout(dealt)) type = partOfCta(dealt).value_or(dealt);
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

Value LoopRing::ringOf(OpBuilder& builder, ArrayRef<tile::LoadTileOp> parts, int64_t slots, bool tensor) {
  for (tile::LoadTileOp load : parts) remarkHints(load);
  SmallVector<Type> types = llvm::map_to_vector(parts, [&](tile::LoadTileOp load) { return Type(slotOf(load)); });
  const auto by = tensor ? tgpu::RingFill::tensor : factors.empty() ? tgpu::RingFill::asyncOwn : tgpu::RingFill::async;
  auto type = tgpu::RingType::get(builder.getContext(), slots, by, types);
  return tgpu::RingOp::create(builder, at.loop.getLoc(), type, DenseI64ArrayAttr());
}

// Starts the copies of iteration `iteration`. What tensor copies bring is waited for, so they bring it only where the loop has it.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts, Value iteration, Value slot,
                    bool open) {
  Value wanted;
  if (cast<tgpu::RingType>(ring.getType()).hasBarriers())
    wanted =
        arith::CmpIOp::create(builder, at.loop.getLoc(), arith::CmpIPredicate::slt, iteration, at.loop.getUpperBound());
  const auto views = llvm::map_to_vector(parts, [](tile::LoadTileOp load) -> Value { return load.getView(); });
  fill(builder, ring, parts, views, iteration, slot, open, {}, wanted);
}

// Of a turn of a sequence.
void LoopRing::fill(OpBuilder& builder, Value slot, TurnSequence& sequence, ValueRange turn) {
  const IRMapping values = sequence.values(turn);
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  const auto views = llvm::map_to_vector(
      parts, [&](tile::LoadTileOp load) { return sequence.viewAt(builder, load.getView(), values); });
  fill(builder, ring, parts, views, TurnSequence::counter(turn), slot, /*open=*/false, values,
       options.tensor ? sequence.isTurn(builder, turn) : Value());
}

// wanted: null, or whether anything is copied. An open fill ends with the next one, which tensor copies are not.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts, ArrayRef<Value> views,
                    Value iteration, Value slot, bool open, const IRMapping& values, Value wanted) {
  SmallVector<int64_t> shapes;
  SmallVector<Attribute> layouts;
  for (tile::LoadTileOp load : parts) {
    const RankedTensorType type = factors.loadedType(load);
    llvm::append_range(shapes, load.getTileShape());
    if (hasLayout(type) && !wanted) layouts.push_back(type.getEncoding());
  }
  Value count;
  if (wanted) count = arith::ExtUIOp::create(builder, at.loop.getLoc(), builder.getI32Type(), wanted);
  auto op = tgpu::RingFillOp::create(builder, at.loop.getLoc(), ring, slot, iteration, count, views, shapes,
                                     layouts.empty() ? ArrayAttr() : builder.getArrayAttr(layouts), TypedAttr(),
                                     tile::EvictHint::normal, open && !options.tensor);
  Block& body = op.getPosition().empty() ? op.getPosition().emplaceBlock() : op.getPosition().front();
  Value position = body.addArgument(iteration.getType(), at.loop.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  IRMapping mapping = at.indicesAt(inside, parts, position, values);
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

// What a loop carries of a ring: the slot at work and, where memory barriers tell of copies, the parity of its fill.
SmallVector<Value> LoopRing::firstPlace(OpBuilder& builder) {
  return SmallVector<Value>(placeValues(), number(builder, 0));
}

SmallVector<Value> LoopRing::nextPlace(OpBuilder& builder, ValueRange place) {
  SmallVector<Value> next{nextSlot(builder, place[0], 1)};
  if (!options.tensor) return next;
  const Location loc = at.loop.getLoc();
  Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place[0], number(builder, slots - 1));
  Value flip = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), wraps);
  next.push_back(arith::XOrIOp::create(builder, loc, place[1], flip));
  return next;
}

// Whether a factor of a product will be read from swizzled slots.
bool LoopRing::isInSlot(Value factor) const {
  if (auto permute = factor.getDefiningOp<tile::PermuteOp>()) factor = permute.getSource();
  auto load = factor.getDefiningOp<tile::LoadTileOp>();
  return load && factors.contains(load) && slotOf(load).getSwizzle() != 0;
}

std::string LoopRing::whyNoTensorCopy(tile::LoadTileOp load) const {
  auto kernel = load->getParentOfType<func::FuncOp>();
  if (!factors.contains(load) || !slotOf(load).getSwizzle())
    return "what is loaded at " + placeOf(load) + " is no factor of a product alone, or has no swizzled rows";
  std::string why = whyNoTensorTiles(load.getView(), load.getTileShape(), slotOf(load).getShape()[0]);
  if (!why.empty()) return why;
  if (options.ctas > 1 && slotOf(load).getShape()[0] % (options.ctas * Swizzle::kPeriod) != 0)
    return "the cluster's CTAs cannot share the rows of what is loaded at " + placeOf(load);
  const MemoryAccess read = memoryAccess(load);
  Operation* writer = nullptr;
  kernel.walk([&](Operation* op) {
    if (op == kernel || !mayWriteTo(op, read)) return WalkResult::advance();
    writer = op;
    return WalkResult::interrupt();
  });
  if (writer)
    return "what is at " + placeOf(writer) +
           " may write what they read; promise that the arguments do not overlap (no_alias)";
  return "";
}

std::string LoopRing::whyNoTensorCopies(ArrayRef<tile::LoadTileOp> loads, int64_t count,
                                        const TurnSequence* sequence) const {
  if (!options.wgmma) return "the architecture has no wgmma";
  const WarpgroupProducts made(
      at.loop, [&](Value factor) { return isInSlot(factor); }, /*roundsF32=*/true);
  size_t dots = 0;  // in branches, too
  at.loop->walk([&](tile::DotOp) { ++dots; });
  if (made.empty() || made.count() != dots)
    return "not all of the loop's products are wgmma's, of a second factor in shared memory";
  if (made.mayOverlap() && count < 3) return "they take three stages or more";
  const SmallVector<Operation*> around = CarriedThrough::around(at.loop);
  if (sequence && around.size() > 1)
    return "the loop and the one around it, from whose tile to tile it goes on, stand in another one";
  if (!llvm::all_of(around, llvm::IsaPred<scf::ForOp, scf::IfOp>)) return "the loop stands in one that does not count";
  for (tile::LoadTileOp load : loads)
    if (std::string why = whyNoTensorCopy(load); !why.empty()) return why;
  return "";
}

// Before anything changes: what is staged, and what becomes of products.
void LoopRing::prepare(ArrayRef<tile::LoadTileOp> loads, int64_t count) {
  slots = count;
  if (options.wgmma)
    products.emplace(
        at.loop, [&](Value factor) { return isInSlot(factor); }, options.tensor);
  if (products && products->mayOverlap() && slots > 2) overlapping = true;
  for (tile::LoadTileOp load : loads) (factors.canBeStaged(load) ? staged : small).push_back(load);
  factors.dropOriginals();
}

scf::ForOp LoopRing::replaceLoop(IRRewriter& rewriter, ValueRange inits,
                                 llvm::function_ref<SmallVector<Value>(ArrayRef<BlockArgument>)> turn) {
  SmallVector<NamedAttribute> attributes(at.loop->getDiscardableAttrs());
  auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> carried) { return turn(carried); };
  auto replaced = cast<scf::ForOp>(
      *at.loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields));
  replaced->setDiscardableAttrs(attributes);
  return at.loop = replaced;
}

// The loop carries the slot's number and what the loads that are not staged give.
scf::ForOp LoopRing::stage(ArrayRef<tile::LoadTileOp> loads, ArrayRef<tile::LoadTileOp> once, int64_t count) {
  IRRewriter rewriter(at.loop);
  llvm::append_range(stationary, once);
  prepare(loads, count);
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  const SmallVector<Operation*> loops = CarriedThrough::around(at.loop);
  const bool goesOn = options.tensor && !loops.empty();
  if (goesOn) rewriter.setInsertionPoint(loops.front());
  ring = ringOf(rewriter, parts, slots, options.tensor);
  SmallVector<Value> inits = firstPlace(rewriter);
  if (goesOn) inits.assign(around.emplace(rewriter, at.loop, inits).values());
  Value iteration = at.loop.getLowerBound(), zero = number(rewriter, 0), filled = inits[0];
  if (!stationary.empty()) {
    stationaryRing = ringOf(rewriter, partsOf(stationary), 1, /*tensor=*/false);
    fill(rewriter, stationaryRing, partsOf(stationary), iteration, zero, /*open=*/true);
  }
  llvm::append_range(inits, at.loadAt(rewriter, small, iteration));
  for (int64_t slot = 0; slot < slots - 1; ++slot) {
    if (slot > 0) iteration = at.ahead(rewriter, iteration);
    if (slot > 0) filled = goesOn ? nextSlot(rewriter, filled, 1) : number(rewriter, slot);
    fill(rewriter, ring, parts, iteration, filled, /*open=*/false);
  }

  if (overlapping && !options.tensor) await(rewriter, at.loop.getLoc(), slots - 2);
  if (!stationary.empty() && options.tensor)
    tgpu::RingAwaitOp::create(rewriter, at.loop.getLoc(), stationaryRing, Value(), Value(),
                              rewriter.getI32IntegerAttr(0), /*for_wgmma=*/true);

  const unsigned own = at.loop.getNumResults();
  scf::ForOp replaced =
      replaceLoop(rewriter, inits, [&](ArrayRef<BlockArgument> carried) { return fetchNext(carried); });
  if (goesOn) around->leave(replaced, replaced.getResults().slice(own, placeValues()));
  rewriter.setInsertionPointAfter(replaced);
  empty(rewriter, replaced->getLoc());
  if (products) products->replace(replaced, overlapping);
  return replaced;
}

// Both loops carry the slot's number and what says which turn is to be filled next.
scf::ForOp LoopRing::stage(ArrayRef<tile::LoadTileOp> loads, TurnSequence& sequence, int64_t count) {
  prepare(loads, count);
  IRRewriter rewriter(sequence.outer);
  const Location loc = at.loop.getLoc();
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  ring = ringOf(rewriter, parts, slots, options.tensor);
  SmallVector<Value> turn = sequence.first(rewriter);
  for (int64_t slot = 0; slot < slots - 1; ++slot) {
    fill(rewriter, number(rewriter, slot), sequence, turn);
    turn = sequence.next(rewriter, turn);
  }
  if (overlapping && !options.tensor) await(rewriter, loc, slots - 2);

  SmallVector<Value> inits = firstPlace(rewriter);
  llvm::append_range(inits, turn);
  SmallVector<NamedAttribute> attributes(sequence.outer->getDiscardableAttrs());
  SmallVector<Value> carried;
  auto keep = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
    carried.assign(arguments.begin(), arguments.end());
    return carried;
  };
  sequence.outer = cast<scf::ForOp>(
      *sequence.outer.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, keep));
  sequence.outer->setDiscardableAttrs(attributes);

  rewriter.setInsertionPoint(at.loop);
  scf::ForOp replaced =
      replaceLoop(rewriter, carried, [&](ArrayRef<BlockArgument> arguments) { return fetchNext(arguments, sequence); });
  auto yield = cast<scf::YieldOp>(sequence.outer.getBody()->getTerminator());
  for (auto [held, left] : llvm::zip_equal(carried, replaced.getResults().take_back(carried.size())))
    yield->replaceUsesOfWith(held, left);
  rewriter.setInsertionPointAfter(sequence.outer);
  empty(rewriter, loc);
  if (products) products->replace(replaced, overlapping);
  sequence.separateOwnTurns(replaced, slots - 1);
  sequence.outer->setAttr(kTilesAttr, rewriter.getUnitAttr());
  return replaced;
}

// At most `pending` fills are under way, and all threads meet. Tensor copies are waited for slot by slot, where they are read.
Operation* LoopRing::await(OpBuilder& builder, Location loc, int64_t pending) {
  if (options.tensor) return tgpu::RingReleaseOp::create(builder, loc, ring);
  return tgpu::RingAwaitOp::create(builder, loc, ring, Value(), Value(), builder.getI32IntegerAttr(pending),
                                   products && !products->empty());
}

// Behind the loop nobody reads slots any more: others may have their memory.
void LoopRing::empty(OpBuilder& builder, Location loc) {
  await(builder, loc, 0)->setAttr(kEmptiedAttr, builder.getUnitAttr());
}

void LoopRing::awaitSlot(OpBuilder& builder, ValueRange place) {
  tgpu::RingAwaitOp::create(builder, at.loop.getLoc(), ring, place[0], place[1], IntegerAttr(), /*for_wgmma=*/false);
}

// Null where there is none, or where the copies start at the top.
tile::ReduceOp LoopRing::firstReduction() {
  auto reductions = at.loop.getBody()->getOps<tile::ReduceOp>();
  return options.early || options.ctas > 1 || !factors.empty() || reductions.empty() ? tile::ReduceOp()
                                                                                     : *reductions.begin();
}

// The slot that the turn before this one, which has `slot`, has read.
Value LoopRing::toBeFilled(OpBuilder& builder, Value slot) {
  return nextSlot(builder, slot, slots == 2 ? 1 : -1);
}

// In the body: waits for the oldest copies, starts those of the last iteration that there is room for, reads. Returns
// what the loop yields for what it carries. Products that overlap are started first: behind them those of the turn before are
// over, whose slot is free, and the copies of the next one are waited for.
SmallVector<Value> LoopRing::fetchNext(ArrayRef<BlockArgument> carried) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  const SmallVector<Value> place(carried.take_front(placeValues()));
  if (options.tensor) awaitSlot(rewriter, place);
  if (!overlapping) await(rewriter, loop.getLoc(), slots - 2);
  SmallVector<Value> yielded = nextPlace(rewriter, place);
  Value slot = place[0], next = yielded[0], iteration = at.ahead(rewriter, loop.getInductionVar());
  llvm::append_range(yielded, at.loadAt(rewriter, small, iteration));
  for (int64_t i = 2; i < slots; ++i) iteration = at.ahead(rewriter, iteration);
  if (tile::ReduceOp reduce = firstReduction()) rewriter.setInsertionPoint(reduce);
  if (overlapping) {
    rewriter.setInsertionPointAfter(products->last());
    await(rewriter, loop.getLoc(), slots - 3);
  }
  fill(rewriter, ring, partsOf(staged), iteration, slots == 2 ? next : toBeFilled(rewriter, slot), /*open=*/false);
  for (auto [load, value] : llvm::zip_equal(small, carried.drop_front(placeValues()))) rewriter.replaceOp(load, value);
  readParts(rewriter, ring, staged, slot);
  if (!stationary.empty()) {
    rewriter.setInsertionPointToStart(loop.getBody());
    readParts(rewriter, stationaryRing, stationary, number(rewriter, 0));
  }
  return yielded;
}

// The same in a sequence.
SmallVector<Value> LoopRing::fetchNext(ArrayRef<BlockArgument> carried, TurnSequence& sequence) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  const SmallVector<Value> place(carried.take_front(placeValues())), turn(carried.drop_front(placeValues()));
  SmallVector<Value> yielded = nextPlace(rewriter, place);
  Value slot = place[0];
  if (options.tensor) awaitSlot(rewriter, place);
  if (overlapping) rewriter.setInsertionPointAfter(products->last());
  await(rewriter, loop.getLoc(), overlapping ? slots - 3 : slots - 2);
  fill(rewriter, toBeFilled(rewriter, slot), sequence, turn);
  llvm::append_range(yielded, sequence.next(rewriter, turn));
  readParts(rewriter, ring, staged, slot);
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
