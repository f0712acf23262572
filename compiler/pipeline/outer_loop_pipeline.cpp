#include "compiler/pipeline/outer_loop_pipeline.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/atomic.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Returns an op of the outer loop's body that may write the memory of `read` or communicate with
// other programs.
Operation* writerOf(scf::ForOp outer, const MemoryAccess& read) {
  Operation* found = nullptr;
  outer.getBody()->walk([&](Operation* op) {
    const FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
    const bool conflicts =
        failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
          return access.atomic || (access.writes && mayOverlap(access, read));
        });
    if (!conflicts) return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

}  // namespace

std::optional<OuterLoopPipeline> OuterLoopPipeline::around(PipelinedLoop& at,
                                                           ArrayRef<tile::LoadTileOp> loads,
                                                           std::string& why) {
  OuterLoopPipeline pipeline(at);
  pipeline.outer = dyn_cast<scf::ForOp>(at.loop->getParentOp());
  if (!pipeline.outer) return std::nullopt;
  for (tile::LoadTileOp load : loads)
    if (Operation* writer = writerOf(pipeline.outer, memoryAccess(load))) {
      why = isAtomic(writer) ? "the atomic at " + placeOf(writer) +
                                   " may synchronise with other programs, whose writes they read; "
                                   "move the atomic out of the outer loop"
                             : "the op at " + placeOf(writer) +
                                   " may write what they read; promise that the arguments do not "
                                   "overlap (no_alias)";
      return std::nullopt;
    }
  if (!pipeline.collectBounds()) {
    why =
        "the loop must have one lower bound and one step for all outer iterations, and an upper "
        "bound that the outer counter and values from outside determine";
    return std::nullopt;
  }
  if (!pipeline.collectPlaces(loads)) {
    why =
        "their indices must be computed from the counters of both loops, values from outside and "
        "memory that the outer loop does not write";
    return std::nullopt;
  }
  return pipeline;
}

// Returns true if a copy of the op may run early, even for an iteration that the outer loop does
// not have. A load may if the outer loop does not write its memory: outside the view it reads a pad
// value.
bool OuterLoopPipeline::mayRepeat(Operation* op) {
  if (op->getNumRegions()) return false;
  if (isMemoryEffectFree(op)) {
    // A load may give 0 for an iteration that does not exist, so it must not be a divisor.
    const bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
                             arith::FloorDivSIOp, arith::RemSIOp, arith::RemUIOp>(op);
    return !divides || !read.contains(op->getOperand(1).getDefiningOp());
  }
  auto load = dyn_cast<tile::LoadTileOp>(op);
  return load && !writerOf(outer, memoryAccess(load));
}

// Like PipelinedLoop::addSlice, for the outer body. Divisors that do not come from a load are
// nonzero in every iteration, or the division does not trap.
bool OuterLoopPipeline::collect(Value value, SetVector<Operation*>& slice, bool& follows) {
  if (value == outer.getInductionVar()) return follows = true;
  if (isOutside(value)) return true;
  Operation* op = value.getDefiningOp();
  if (!op || at->loop->isAncestor(op)) return false;
  if (!slice.contains(op)) {
    bool here = false;
    for (Value operand : op->getOperands())
      if (!collect(operand, slice, here)) return false;
    if (!mayRepeat(op)) return false;
    slice.insert(op);
    moving[op] = here;
    const auto isRead = [&](Value operand) { return read.contains(operand.getDefiningOp()); };
    if (!isMemoryEffectFree(op) || llvm::any_of(op->getOperands(), isRead)) read.insert(op);
  }
  follows |= moving.lookup(op);
  return true;
}

bool OuterLoopPipeline::collectBounds() {
  SetVector<Operation*> slice;
  bool follows = false;
  for (Value bound : {at->loop.getLowerBound(), at->loop.getStep()})
    if (!collect(bound, slice, follows) || follows) return false;
  if (!collect(at->loop.getUpperBound(), slice, countsDiffer)) return false;
  endsAtCounter = at->loop.getUpperBound() == outer.getInductionVar();
  if (countsDiffer && !endsAtCounter) following.insert(at->loop.getUpperBound());
  return true;
}

bool OuterLoopPipeline::collectView(Value view, SmallVectorImpl<Value>& used) {
  if (isOutside(view)) return true;
  auto slice = view.getDefiningOp<tile::SliceOp>();
  if (!slice || at->loop->isAncestor(slice)) return false;
  used.append({slice.getBegin(), slice.getEnd()});
  return collectView(slice.getView(), used);
}

Value OuterLoopPipeline::viewAt(OpBuilder& builder, Value view, const IRMapping& values) {
  if (isOutside(view)) return view;
  auto slice = view.getDefiningOp<tile::SliceOp>();
  IRMapping mapping = values;
  mapping.map(slice.getView(), viewAt(builder, slice.getView(), values));
  return builder.clone(*slice, mapping)->getResult(0);
}

bool OuterLoopPipeline::collectPlaces(ArrayRef<tile::LoadTileOp> loads) {
  SetVector<Operation*> inner;
  bool any = false;
  SmallVector<Value> used;
  for (tile::LoadTileOp load : loads) {
    if (!collectView(load.getView(), used)) return false;
    for (Value index : PipelinedLoop::positionOf(load)) {
      at->addSlice(index, inner, any);
      used.push_back(index);
    }
  }
  for (Operation* op : inner) llvm::append_range(used, op->getOperands());
  for (Value value : used) {
    if (value == at->loop.getInductionVar() || isOutside(value) ||
        !at->loop.isDefinedOutsideOfLoop(value))
      continue;
    SetVector<Operation*> slice;
    bool follows = false;
    if (!collect(value, slice, follows)) return false;
    if (value != outer.getInductionVar()) (follows ? following : fixed).insert(value);
  }
  return true;
}

Value OuterLoopPipeline::hoisted(OpBuilder& builder, Value value) {
  SetVector<Operation*> slice;
  bool follows = false;
  collect(value, slice, follows);
  for (Operation* op : slice)
    if (!hoistedValues.contains(op->getResult(0))) builder.clone(*op, hoistedValues);
  return hoistedValues.lookupOrDefault(value);
}

// Emits the values of `following` for this value of the outer counter.
SmallVector<Value> OuterLoopPipeline::valuesAt(OpBuilder& builder, Value counter) {
  IRMapping mapping = hoistedValues;
  mapping.map(outer.getInductionVar(), counter);
  SetVector<Operation*> slice;
  bool follows = false;
  for (Value value : following) collect(value, slice, follows);
  for (Operation* op : slice)
    if (!hoistedValues.contains(op->getResult(0))) builder.clone(*op, mapping);
  return llvm::map_to_vector(following, [&](Value value) { return mapping.lookup(value); });
}

// Emits the first outer counter >= `counter` whose inner loop has an iteration.
Value OuterLoopPipeline::nextNonEmpty(OpBuilder& builder, Value counter) {
  if (!countsDiffer) return counter;
  const Location loc = at->loop.getLoc();
  const auto seek = [&](OpBuilder& b, Location, ValueRange here) {
    Value end = endsAtCounter ? here[0] : valuesAt(b, here[0])[0];
    Value empty = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, lower, end);
    Value more =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, here[0], outer.getUpperBound());
    scf::ConditionOp::create(b, loc, arith::AndIOp::create(b, loc, empty, more), here);
  };
  const auto goOn = [&](OpBuilder& b, Location, ValueRange here) {
    scf::YieldOp::create(b, loc, Value(arith::AddIOp::create(b, loc, here[0], outer.getStep())));
  };
  return scf::WhileOp::create(builder, loc, counter.getType(), counter, seek, goOn).getResult(0);
}

SmallVector<Value> OuterLoopPipeline::first(OpBuilder& builder) {
  lower = hoisted(builder, at->loop.getLowerBound());
  if (!countsDiffer) upper = hoisted(builder, at->loop.getUpperBound());
  step = hoisted(builder, at->loop.getStep());
  for (Value value : fixed) hoisted(builder, value);
  SmallVector<Value> iteration{nextNonEmpty(builder, outer.getLowerBound()), lower};
  llvm::append_range(iteration, valuesAt(builder, iteration[0]));
  return iteration;
}

SmallVector<Value> OuterLoopPipeline::next(OpBuilder& builder, ValueRange iteration) {
  Location loc = at->loop.getLoc();
  Value counter = arith::AddIOp::create(builder, loc, iteration[1], step);
  Value over =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, counter, upperIn(iteration));
  SmallVector<Value> result;
  if (!countsDiffer) {
    Value later = arith::AddIOp::create(builder, loc, iteration[0], outer.getStep());
    result.push_back(arith::SelectOp::create(builder, loc, over, later, iteration[0]));
  }
  Value first = arith::SelectOp::create(builder, loc, over, lower, counter);
  result.push_back(first);
  if (following.empty() && !countsDiffer) return result;
  SmallVector<Value> held(iteration.drop_front(2));
  if (countsDiffer) held.insert(held.begin(), iteration[0]);
  auto branch =
      scf::IfOp::create(builder, loc, ValueRange(held).getTypes(), over, /*addThenBlock=*/true,
                        /*addElseBlock=*/true);
  OpBuilder moved = OpBuilder::atBlockEnd(branch.thenBlock()),
            stays = OpBuilder::atBlockEnd(branch.elseBlock());
  Value now =
      countsDiffer
          ? nextNonEmpty(moved, arith::AddIOp::create(moved, loc, iteration[0], outer.getStep()))
          : result[0];
  SmallVector<Value> next = valuesAt(moved, now);
  if (countsDiffer) next.insert(next.begin(), now);
  scf::YieldOp::create(moved, loc, next);
  scf::YieldOp::create(stays, loc, held);
  llvm::append_range(result, branch.getResults());
  if (countsDiffer) std::swap(result[0], result[1]);  // the outer loop's counter comes first
  return result;
}

Value OuterLoopPipeline::isIteration(OpBuilder& builder, ValueRange iteration) {
  const auto less = [&](Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, at->loop.getLoc(), arith::CmpIPredicate::slt, a, b);
  };
  Value ofOuter = less(iteration[0], outer.getUpperBound()),
        ofInner = less(iteration[1], upperIn(iteration));
  return arith::AndIOp::create(builder, at->loop.getLoc(), ofOuter, ofInner);
}

IRMapping OuterLoopPipeline::values(ValueRange iteration) {
  IRMapping mapping;
  mapping.map(outer.getInductionVar(), iteration[0]);
  for (Value value : fixed) mapping.map(value, hoistedValues.lookupOrDefault(value));
  for (auto [value, held] : llvm::zip_equal(following, iteration.drop_front(2)))
    mapping.map(value, held);
  return mapping;
}

// The tiles of the inner loop's first `ahead` iterations are in flight when it starts. Its last
// `ahead` iterations copy the first tiles of its next executions. If it has at most `ahead`
// iterations, the first of the two loops is empty.
void OuterLoopPipeline::separateOwnIterations(scf::ForOp loop, int64_t ahead) {
  if (!matchPattern(loop.getStep(), m_One())) return;
  const Location loc = loop.getLoc();
  const unsigned carried = loop.getNumRegionIterArgs(), state = carried - 2 - following.size();
  OpBuilder builder(loop);
  const auto number = [&](OpBuilder& at) -> Value {
    return arith::ConstantOp::create(at, loc,
                                     at.getIntegerAttr(loop.getUpperBound().getType(), ahead));
  };
  Value last = loop.getUpperBound();
  // An upper bound from memory may be less than the lower bound.
  if (countsDiffer) last = arith::MaxSIOp::create(builder, loc, last, loop.getLowerBound());
  Value end = arith::SubIOp::create(builder, loc, last, number(builder));

  auto own = cast<scf::ForOp>(builder.clone(*loop));
  own.setUpperBound(end);
  OpBuilder inside = OpBuilder::atBlockBegin(own.getBody());
  SmallVector<Value> iteration{
      outer.getInductionVar(),
      arith::AddIOp::create(inside, loc, own.getInductionVar(), number(inside))};
  llvm::append_range(iteration, following);
  for (auto [index, value] : llvm::enumerate(iteration)) {
    BlockArgument argument = own.getRegionIterArg(state + index);
    argument.replaceAllUsesWith(value);
    own.getBody()->getTerminator()->setOperand(state + index, argument);
  }

  Value any =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, end, loop.getLowerBound());
  SmallVector<Value> begin(loop.getInitArgs().drop_front(state));
  SmallVector<Type> types = llvm::map_to_vector(begin, [](Value value) { return value.getType(); });
  auto branch =
      scf::IfOp::create(builder, loc, types, any, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder over = OpBuilder::atBlockEnd(branch.thenBlock()),
            same = OpBuilder::atBlockEnd(branch.elseBlock());
  SmallVector<Value> next{
      nextNonEmpty(over,
                   arith::AddIOp::create(over, loc, outer.getInductionVar(), outer.getStep())),
      lower};
  llvm::append_range(next, valuesAt(over, next[0]));
  scf::YieldOp::create(over, loc, next);
  scf::YieldOp::create(same, loc, begin);

  loop->walk([&](tgpu::RingFillOp fill) { fill->setAttr(kSeldomAttr, builder.getUnitAttr()); });
  Value rest = arith::MaxSIOp::create(builder, loc, loop.getLowerBound(), end);
  loop.setLowerBound(rest);
  SmallVector<Value> inits(own.getResults().take_front(state));
  llvm::append_range(inits, branch.getResults());
  loop.getInitArgsMutable().assign(inits);
}

}  // namespace ligerdsl::compiler
