#include "compiler/pipeline/loop_ring.h"

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
  return a.getView() == b.getView() && a.getIndices() == b.getIndices() &&
         a.getTileShape() == b.getTileShape() && operands.loadedType(a) == operands.loadedType(b);
}

SmallVector<tile::LoadTileOp> LoopRing::partsOf(ArrayRef<tile::LoadTileOp> all) const {
  SmallVector<tile::LoadTileOp> parts;
  for (tile::LoadTileOp load : all)
    if (operands.canBeStaged(load) &&
        llvm::none_of(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }))
      parts.push_back(load);
  return parts;
}

tgpu::MemDescType LoopRing::slotOf(tile::LoadTileOp load) const {
  RankedTensorType type = operands.loadedType(load);
  int64_t swizzle = 0;
  const bool multiplied = llvm::any_of(
      operands.all(), [&](tile::LoadTileOp operand) { return isSameTile(operand, load); });
  if (multiplied && type.getRank() == 2)
    swizzle = Swizzle::widest(type.getDimSize(0),
                              type.getDimSize(1) * sharedElementBytes(type.getElementType()));
  // Copies of an operand use the dot's layout. Other tiles are read in the layout of the load.
  const auto dealt = cast<RankedTensorType>(load.getType());
  if (hasLayout(dealt)) type = partOfCta(dealt).value_or(dealt);
  return tgpu::MemDescType::get(type.getContext(), type.getShape(), type.getElementType(), 0,
                                swizzle);
}

Value LoopRing::number(OpBuilder& builder, int64_t value) {
  return arith::ConstantOp::create(builder, at.loop.getLoc(), builder.getI32IntegerAttr(value));
}

// Copies to shared memory take no eviction policy; set_eviction_policy.cpp says why.
void LoopRing::remarkHints(tile::LoadTileOp load) {
  const bool policy =
      load.getEvict() == tile::EvictHint::first || load.getEvict() == tile::EvictHint::last;
  if (!policy && load.getCache() == tile::CacheHint::normal) return;
  at.remark(load, RemarkId::load_hint_ignored)
      << "its " << (policy ? "eviction policy" : "cache hint")
      << " is ignored: asynchronous copies to shared memory have none; omit it, or use smaller "
         "tiles or "
         "fewer stages, which stay in registers";
}

Value LoopRing::ringOf(OpBuilder& builder, ArrayRef<tile::LoadTileOp> parts, int64_t slots,
                       bool tensor) {
  for (tile::LoadTileOp load : parts) remarkHints(load);
  SmallVector<Type> types =
      llvm::map_to_vector(parts, [&](tile::LoadTileOp load) { return Type(slotOf(load)); });
  const auto by = tensor             ? tgpu::RingFill::tensor
                  : operands.empty() ? tgpu::RingFill::asyncOwn
                                     : tgpu::RingFill::async;
  auto type = tgpu::RingType::get(builder.getContext(), slots, by, types);
  return tgpu::RingOp::create(builder, at.loop.getLoc(), type, DenseI64ArrayAttr());
}

// Starts the copies of `iteration`. TMA copies start only if the loop has this iteration, because
// they must be awaited.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts,
                    Value iteration, Value slot, bool open) {
  Value wanted;
  if (cast<tgpu::RingType>(ring.getType()).hasBarriers())
    wanted = arith::CmpIOp::create(builder, at.loop.getLoc(), arith::CmpIPredicate::slt, iteration,
                                   at.loop.getUpperBound());
  const auto views =
      llvm::map_to_vector(parts, [](tile::LoadTileOp load) -> Value { return load.getView(); });
  fill(builder, ring, parts, views, iteration, slot, open, {}, wanted);
}

// Starts the copies of an iteration of the combined pipeline of both loops.
void LoopRing::fill(OpBuilder& builder, Value slot, OuterLoopPipeline& pipeline,
                    ValueRange iteration) {
  const IRMapping values = pipeline.values(iteration);
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  const auto views = llvm::map_to_vector(parts, [&](tile::LoadTileOp load) {
    return pipeline.viewAt(builder, load.getView(), values);
  });
  fill(builder, ring, parts, views, OuterLoopPipeline::counter(iteration), slot, /*open=*/false,
       values, options.tensor ? pipeline.isIteration(builder, iteration) : Value());
}

// `wanted` is null or an i1: nothing is copied where it is false. An open fill shares the commit
// group of the next fill; TMA copies have no such groups.
void LoopRing::fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts,
                    ArrayRef<Value> views, Value iteration, Value slot, bool open,
                    const IRMapping& values, Value wanted) {
  SmallVector<int64_t> shapes;
  SmallVector<Attribute> layouts;
  for (tile::LoadTileOp load : parts) {
    const RankedTensorType type = operands.loadedType(load);
    llvm::append_range(shapes, load.getTileShape());
    if (hasLayout(type) && !wanted) layouts.push_back(type.getEncoding());
  }
  Value count;
  if (wanted)
    count = arith::ExtUIOp::create(builder, at.loop.getLoc(), builder.getI32Type(), wanted);
  auto op = tgpu::RingFillOp::create(builder, at.loop.getLoc(), ring, slot, iteration, count, views,
                                     shapes,
                                     layouts.empty() ? ArrayAttr() : builder.getArrayAttr(layouts),
                                     TypedAttr(), tile::EvictHint::normal, open && !options.tensor);
  Block& body =
      op.getPosition().empty() ? op.getPosition().emplaceBlock() : op.getPosition().front();
  Value position = body.addArgument(iteration.getType(), at.loop.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  IRMapping mapping = at.indicesAt(inside, parts, position, values);
  SmallVector<Value> indices;
  for (tile::LoadTileOp load : parts)
    for (Value index : load.getIndices()) indices.push_back(mapping.lookupOrDefault(index));
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

// The loop carries the current slot and, if mbarriers signal the copies, the parity of its fill.
SmallVector<Value> LoopRing::firstPlace(OpBuilder& builder) {
  return SmallVector<Value>(placeValues(), number(builder, 0));
}

SmallVector<Value> LoopRing::nextPlace(OpBuilder& builder, ValueRange place) {
  SmallVector<Value> next{nextSlot(builder, place[0], 1)};
  if (!options.tensor) return next;
  const Location loc = at.loop.getLoc();
  Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place[0],
                                      number(builder, slots - 1));
  Value flip = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), wraps);
  next.push_back(arith::XOrIOp::create(builder, loc, place[1], flip));
  return next;
}

// Returns true if a matmul reads this operand from a swizzled slot.
bool LoopRing::isInSlot(Value operand) const {
  if (auto permute = operand.getDefiningOp<tile::PermuteOp>()) operand = permute.getSource();
  auto load = operand.getDefiningOp<tile::LoadTileOp>();
  return load && operands.contains(load) && slotOf(load).getSwizzle() != 0;
}

std::string LoopRing::reasonNoTensorCopy(tile::LoadTileOp load) const {
  auto kernel = load->getParentOfType<func::FuncOp>();
  if (!operands.contains(load) || !slotOf(load).getSwizzle())
    return "the tile loaded at " + placeOf(load) +
           " is not only an operand of dots, or has no swizzled rows";
  std::string why =
      whyNoTensorTiles(load.getView(), load.getTileShape(), slotOf(load).getShape()[0]);
  if (!why.empty()) return why;
  if (options.ctas > 1 && slotOf(load).getShape()[0] % (options.ctas * Swizzle::kPeriod) != 0)
    return "the CTAs of the cluster cannot share the rows of the tile loaded at " + placeOf(load);
  const MemoryAccess read = memoryAccess(load);
  Operation* writer = nullptr;
  kernel.walk([&](Operation* op) {
    if (op == kernel || !mayWriteTo(op, read)) return WalkResult::advance();
    writer = op;
    return WalkResult::interrupt();
  });
  if (writer)
    return "the op at " + placeOf(writer) +
           " may write what they read; promise that the arguments do not overlap (no_alias)";
  return "";
}

std::string LoopRing::reasonNoTensorCopies(ArrayRef<tile::LoadTileOp> loads, int64_t count,
                                           const OuterLoopPipeline* pipeline) const {
  if (!options.wgmma) return "the architecture has no wgmma";
  const WgmmaDots made(
      at.loop, [&](Value operand) { return isInSlot(operand); }, /*roundsF32=*/true);
  size_t dotCount = 0;  // includes dots in branches
  at.loop->walk([&](tile::DotOp) { ++dotCount; });
  if (made.empty() || made.count() != dotCount)
    return "wgmma cannot compute all dots of the loop from a B in shared memory";
  if (made.mayOverlap() && count < 3) return "they need three stages or more";
  const SmallVector<Operation*> around = LoopCarriedState::around(at.loop);
  if (pipeline && around.size() > 1)
    return "the loop and the outer loop that its copies continue across are in a third loop";
  if (!llvm::all_of(around, llvm::IsaPred<scf::ForOp, scf::IfOp>))
    return "a loop around it is not a counted loop";
  for (tile::LoadTileOp load : loads)
    if (std::string why = reasonNoTensorCopy(load); !why.empty()) return why;
  return "";
}

// Decides, before the IR changes, which loads are staged and which dots become wgmma.
void LoopRing::prepare(ArrayRef<tile::LoadTileOp> loads, int64_t count) {
  slots = count;
  if (options.wgmma)
    dots.emplace(
        at.loop, [&](Value operand) { return isInSlot(operand); }, options.tensor);
  if (dots && dots->mayOverlap() && slots > 2) overlapping = true;
  for (tile::LoadTileOp load : loads) (operands.canBeStaged(load) ? staged : small).push_back(load);
  operands.dropOriginals();
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

// The loop carries the slot number and the values of loads that are not staged.
scf::ForOp LoopRing::stage(ArrayRef<tile::LoadTileOp> loads, ArrayRef<tile::LoadTileOp> once,
                           int64_t count) {
  IRRewriter rewriter(at.loop);
  llvm::append_range(stationary, once);
  prepare(loads, count);
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  const SmallVector<Operation*> loops = LoopCarriedState::around(at.loop);
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
  scf::ForOp replaced = replaceLoop(
      rewriter, inits, [&](ArrayRef<BlockArgument> carried) { return fetchNext(carried); });
  if (goesOn) around->leave(replaced, replaced.getResults().slice(own, placeValues()));
  rewriter.setInsertionPointAfter(replaced);
  empty(rewriter, replaced->getLoc());
  if (dots) dots->replace(replaced, overlapping);
  return replaced;
}

// Both loops carry the slot number and the state of the iteration that is filled next.
scf::ForOp LoopRing::stage(ArrayRef<tile::LoadTileOp> loads, OuterLoopPipeline& pipeline,
                           int64_t count) {
  prepare(loads, count);
  IRRewriter rewriter(pipeline.outer);
  const Location loc = at.loop.getLoc();
  const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
  ring = ringOf(rewriter, parts, slots, options.tensor);
  SmallVector<Value> iteration = pipeline.first(rewriter);
  for (int64_t slot = 0; slot < slots - 1; ++slot) {
    fill(rewriter, number(rewriter, slot), pipeline, iteration);
    iteration = pipeline.next(rewriter, iteration);
  }
  if (overlapping && !options.tensor) await(rewriter, loc, slots - 2);

  SmallVector<Value> inits = firstPlace(rewriter);
  llvm::append_range(inits, iteration);
  SmallVector<NamedAttribute> attributes(pipeline.outer->getDiscardableAttrs());
  SmallVector<Value> carried;
  auto keep = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
    carried.assign(arguments.begin(), arguments.end());
    return carried;
  };
  pipeline.outer = cast<scf::ForOp>(*pipeline.outer.replaceWithAdditionalYields(
      rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, keep));
  pipeline.outer->setDiscardableAttrs(attributes);

  rewriter.setInsertionPoint(at.loop);
  scf::ForOp replaced = replaceLoop(rewriter, carried, [&](ArrayRef<BlockArgument> arguments) {
    return fetchNext(arguments, pipeline);
  });
  auto yield = cast<scf::YieldOp>(pipeline.outer.getBody()->getTerminator());
  for (auto [held, left] :
       llvm::zip_equal(carried, replaced.getResults().take_back(carried.size())))
    yield->replaceUsesOfWith(held, left);
  rewriter.setInsertionPointAfter(pipeline.outer);
  empty(rewriter, loc);
  if (dots) dots->replace(replaced, overlapping);
  pipeline.separateOwnIterations(replaced, slots - 1);
  pipeline.outer->setAttr(kTilesAttr, rewriter.getUnitAttr());
  return replaced;
}

// Waits until at most `pending` fills are in flight, and synchronises all threads. TMA copies are
// awaited per slot, at the read.
Operation* LoopRing::await(OpBuilder& builder, Location loc, int64_t pending) {
  if (options.tensor) return tgpu::RingReleaseOp::create(builder, loc, ring);
  return tgpu::RingAwaitOp::create(builder, loc, ring, Value(), Value(),
                                   builder.getI32IntegerAttr(pending), dots && !dots->empty());
}

// Nobody reads the slots after the loop, so other buffers may use their memory.
void LoopRing::empty(OpBuilder& builder, Location loc) {
  await(builder, loc, 0)->setAttr(kEmptiedAttr, builder.getUnitAttr());
}

void LoopRing::awaitSlot(OpBuilder& builder, ValueRange place) {
  tgpu::RingAwaitOp::create(builder, at.loop.getLoc(), ring, place[0], place[1], IntegerAttr(),
                            /*for_wgmma=*/false);
}

// Null if there is no reduction, or if the copies start at the top of the body.
tile::ReduceOp LoopRing::firstReduction() {
  auto reductions = at.loop.getBody()->getOps<tile::ReduceOp>();
  return options.early || options.ctas > 1 || !operands.empty() || reductions.empty()
             ? tile::ReduceOp()
             : *reductions.begin();
}

// Returns the slot to fill, which the previous iteration has read. `slot` is the current one.
Value LoopRing::toBeFilled(OpBuilder& builder, Value slot) {
  return nextSlot(builder, slot, slots == 2 ? 1 : -1);
}

// Emits the body's copies and reads: waits for the oldest copies, starts those of the last
// iteration that has a free slot, and reads. Returns the values that the loop yields for its
// carried state. Overlapping wgmmas start first. After them those of the previous iteration have
// completed, so their slot is free, and the next iteration's copies are awaited.
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
    rewriter.setInsertionPointAfter(dots->last());
    await(rewriter, loop.getLoc(), slots - 3);
  }
  fill(rewriter, ring, partsOf(staged), iteration, slots == 2 ? next : toBeFilled(rewriter, slot),
       /*open=*/false);
  for (auto [load, value] : llvm::zip_equal(small, carried.drop_front(placeValues())))
    rewriter.replaceOp(load, value);
  readParts(rewriter, ring, staged, slot);
  if (!stationary.empty()) {
    rewriter.setInsertionPointToStart(loop.getBody());
    readParts(rewriter, stationaryRing, stationary, number(rewriter, 0));
  }
  return yielded;
}

// The same for a pipeline over both loops.
SmallVector<Value> LoopRing::fetchNext(ArrayRef<BlockArgument> carried,
                                       OuterLoopPipeline& pipeline) {
  scf::ForOp loop = at.loop;
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPointToStart(loop.getBody());
  const SmallVector<Value> place(carried.take_front(placeValues())),
      iteration(carried.drop_front(placeValues()));
  SmallVector<Value> yielded = nextPlace(rewriter, place);
  Value slot = place[0];
  if (options.tensor) awaitSlot(rewriter, place);
  if (overlapping) rewriter.setInsertionPointAfter(dots->last());
  await(rewriter, loop.getLoc(), overlapping ? slots - 3 : slots - 2);
  fill(rewriter, toBeFilled(rewriter, slot), pipeline, iteration);
  llvm::append_range(yielded, pipeline.next(rewriter, iteration));
  readParts(rewriter, ring, staged, slot);
  return yielded;
}

void LoopRing::readParts(IRRewriter& rewriter, Value ring, ArrayRef<tile::LoadTileOp> all,
                         Value slot) {
  const SmallVector<tile::LoadTileOp> parts = partsOf(all);
  SmallVector<unsigned> numbers;
  for (tile::LoadTileOp load : all)
    numbers.push_back(
        llvm::find_if(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }) -
        parts.begin());
  for (auto [load, part] : llvm::zip_equal(SmallVector<tile::LoadTileOp>(all), numbers)) {
    rewriter.setInsertionPoint(load);
    rewriter.replaceOpWithNewOp<tgpu::RingReadOp>(load, load.getType(), ring, slot, part, Value(),
                                                  TypedAttr(), DenseI64ArrayAttr());
  }
}

}  // namespace ligerdsl::compiler
