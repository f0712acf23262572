#include "compiler/rewrites/turn_sequence.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// What of the outer loop's body may write what is read, or talks to other programs.
Operation* writerOf(scf::ForOp outer, const MemoryAccess& read) {
  Operation* found = nullptr;
  outer.getBody()->walk([&](Operation* op) {
    const FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
    const bool conflicts = failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
                             return access.atomic || (access.writes && mayOverlap(access, read));
                           });
    if (!conflicts) return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

}  // namespace

std::optional<TurnSequence> TurnSequence::around(PipelinedLoop& at, ArrayRef<tile::LoadTileOp> loads,
                                                 std::string& why) {
  TurnSequence sequence(at);
  sequence.outer = dyn_cast<scf::ForOp>(at.loop->getParentOp());
  if (!sequence.outer) return std::nullopt;
  for (tile::LoadTileOp load : loads)
    if (Operation* writer = writerOf(sequence.outer, memoryAccess(load))) {
      why = "what is at " + placeOf(writer) +
            " may write what they read; promise that the arguments do not overlap (no_alias)";
      return std::nullopt;
    }
  if (!sequence.collectBounds()) {
    why = "the loop's bounds depend on more than the counter of the loop around it and values from outside";
    return std::nullopt;
  }
  if (!sequence.collectPlaces(loads)) {
    why = "their places depend on more than the counters of both loops and values from outside";
    return std::nullopt;
  }
  return sequence;
}

// Whether it may stand elsewhere, and for iterations that the outer loop does not have: a load of a view, which has a number outside of
// it, too, of memory that the outer loop does not write.
bool TurnSequence::mayRepeat(Operation* op) {
  if (op->getNumRegions()) return false;
  if (isMemoryEffectFree(op)) {
    // What a load has for an iteration that there is not may be 0.
    const bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
                             arith::FloorDivSIOp, arith::RemSIOp, arith::RemUIOp>(op);
    return !divides || !read.contains(op->getOperand(1).getDefiningOp());
  }
  auto load = dyn_cast<tile::LoadTileOp>(op);
  return load && !writerOf(outer, memoryAccess(load));
}

// As PipelinedLoop::addSlice, of the outer body. Divisors that no load gives are not 0 in any iteration, or do not trap.
bool TurnSequence::collect(Value value, SetVector<Operation*>& slice, bool& follows) {
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

bool TurnSequence::collectBounds() {
  SetVector<Operation*> slice;
  bool follows = false;
  for (Value bound : {at->loop.getLowerBound(), at->loop.getStep()})
    if (!collect(bound, slice, follows) || follows) return false;
  if (!collect(at->loop.getUpperBound(), slice, turnsDiffer)) return false;
  endsAtCounter = at->loop.getUpperBound() == outer.getInductionVar();
  if (turnsDiffer && !endsAtCounter) following.insert(at->loop.getUpperBound());
  return true;
}

bool TurnSequence::collectView(Value view, SmallVectorImpl<Value>& used) {
  if (isOutside(view)) return true;
  auto slice = view.getDefiningOp<tile::SliceOp>();
  if (!slice || at->loop->isAncestor(slice)) return false;
  used.append({slice.getBegin(), slice.getEnd()});
  return collectView(slice.getView(), used);
}

Value TurnSequence::viewAt(OpBuilder& builder, Value view, const IRMapping& values) {
  if (isOutside(view)) return view;
  auto slice = view.getDefiningOp<tile::SliceOp>();
  IRMapping mapping = values;
  mapping.map(slice.getView(), viewAt(builder, slice.getView(), values));
  return builder.clone(*slice, mapping)->getResult(0);
}

bool TurnSequence::collectPlaces(ArrayRef<tile::LoadTileOp> loads) {
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
    if (value == at->loop.getInductionVar() || isOutside(value) || !at->loop.isDefinedOutsideOfLoop(value)) continue;
    SetVector<Operation*> slice;
    bool follows = false;
    if (!collect(value, slice, follows)) return false;
    if (value != outer.getInductionVar()) (follows ? following : fixed).insert(value);
  }
  return true;
}

Value TurnSequence::hoisted(OpBuilder& builder, Value value) {
  SetVector<Operation*> slice;
  bool follows = false;
  collect(value, slice, follows);
  for (Operation* op : slice)
    if (!inFront.contains(op->getResult(0))) builder.clone(*op, inFront);
  return inFront.lookupOrDefault(value);
}

// Values of `following` where the outer loop's counter is this.
SmallVector<Value> TurnSequence::ofIteration(OpBuilder& builder, Value counter) {
  IRMapping mapping = inFront;
  mapping.map(outer.getInductionVar(), counter);
  SetVector<Operation*> slice;
  bool follows = false;
  for (Value value : following) collect(value, slice, follows);
  for (Operation* op : slice)
    if (!inFront.contains(op->getResult(0))) builder.clone(*op, mapping);
  return llvm::map_to_vector(following, [&](Value value) { return mapping.lookup(value); });
}

// The first iteration of the outer loop from the one on whose counter this is that has turns.
Value TurnSequence::withTurns(OpBuilder& builder, Value counter) {
  if (!turnsDiffer) return counter;
  const Location loc = at->loop.getLoc();
  const auto seek = [&](OpBuilder& b, Location, ValueRange here) {
    Value end = endsAtCounter ? here[0] : ofIteration(b, here[0])[0];
    Value empty = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, lower, end);
    Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, here[0], outer.getUpperBound());
    scf::ConditionOp::create(b, loc, arith::AndIOp::create(b, loc, empty, more), here);
  };
  const auto goOn = [&](OpBuilder& b, Location, ValueRange here) {
    scf::YieldOp::create(b, loc, Value(arith::AddIOp::create(b, loc, here[0], outer.getStep())));
  };
  return scf::WhileOp::create(builder, loc, counter.getType(), counter, seek, goOn).getResult(0);
}

SmallVector<Value> TurnSequence::first(OpBuilder& builder) {
  lower = hoisted(builder, at->loop.getLowerBound());
  if (!turnsDiffer) upper = hoisted(builder, at->loop.getUpperBound());
  step = hoisted(builder, at->loop.getStep());
  for (Value value : fixed) hoisted(builder, value);
  SmallVector<Value> turn{withTurns(builder, outer.getLowerBound()), lower};
  llvm::append_range(turn, ofIteration(builder, turn[0]));
  return turn;
}

SmallVector<Value> TurnSequence::next(OpBuilder& builder, ValueRange turn) {
  Location loc = at->loop.getLoc();
  Value counter = arith::AddIOp::create(builder, loc, turn[1], step);
  Value over = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, counter, upperIn(turn));
  SmallVector<Value> result;
  if (!turnsDiffer) {
    Value later = arith::AddIOp::create(builder, loc, turn[0], outer.getStep());
    result.push_back(arith::SelectOp::create(builder, loc, over, later, turn[0]));
  }
  Value first = arith::SelectOp::create(builder, loc, over, lower, counter);
  result.push_back(first);
  if (following.empty() && !turnsDiffer) return result;
  SmallVector<Value> held(turn.drop_front(2));
  if (turnsDiffer) held.insert(held.begin(), turn[0]);
  auto branch = scf::IfOp::create(builder, loc, ValueRange(held).getTypes(), over, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder moved = OpBuilder::atBlockEnd(branch.thenBlock()), stays = OpBuilder::atBlockEnd(branch.elseBlock());
  Value now = turnsDiffer ? withTurns(moved, arith::AddIOp::create(moved, loc, turn[0], outer.getStep())) : result[0];
  SmallVector<Value> next = ofIteration(moved, now);
  if (turnsDiffer) next.insert(next.begin(), now);
  scf::YieldOp::create(moved, loc, next);
  scf::YieldOp::create(stays, loc, held);
  llvm::append_range(result, branch.getResults());
  if (turnsDiffer) std::swap(result[0], result[1]);  // the outer loop's counter comes first
  return result;
}

Value TurnSequence::isTurn(OpBuilder& builder, ValueRange turn) {
  const auto less = [&](Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, at->loop.getLoc(), arith::CmpIPredicate::slt, a, b);
  };
  Value ofOuter = less(turn[0], outer.getUpperBound()), ofInner = less(turn[1], upperIn(turn));
  return arith::AndIOp::create(builder, at->loop.getLoc(), ofOuter, ofInner);
}

IRMapping TurnSequence::values(ValueRange turn) {
  IRMapping mapping;
  mapping.map(outer.getInductionVar(), turn[0]);
  for (Value value : fixed) mapping.map(value, inFront.lookupOrDefault(value));
  for (auto [value, held] : llvm::zip_equal(following, turn.drop_front(2))) mapping.map(value, held);
  return mapping;
}

// With more turns than `ahead`, a tile begins when the copies are `ahead` turns further in it, and its last `ahead` turns fill the first
// ones of tiles behind it; with less, there is no turn of the first kind.
void TurnSequence::separateOwnTurns(scf::ForOp loop, int64_t ahead) {
  if (!matchPattern(loop.getStep(), m_One())) return;
  const Location loc = loop.getLoc();
  const unsigned carried = loop.getNumRegionIterArgs(), state = carried - 2 - following.size();
  OpBuilder builder(loop);
  const auto number = [&](OpBuilder& at) -> Value {
    return arith::ConstantOp::create(at, loc, at.getIntegerAttr(loop.getUpperBound().getType(), ahead));
  };
  Value last = loop.getUpperBound();
  if (turnsDiffer)
    last = arith::MaxSIOp::create(builder, loc, last, loop.getLowerBound());  // what is read is any number
  Value end = arith::SubIOp::create(builder, loc, last, number(builder));

  auto own = cast<scf::ForOp>(builder.clone(*loop));
  own.setUpperBound(end);
  OpBuilder inside = OpBuilder::atBlockBegin(own.getBody());
  SmallVector<Value> turn{outer.getInductionVar(),
                          arith::AddIOp::create(inside, loc, own.getInductionVar(), number(inside))};
  llvm::append_range(turn, following);
  for (auto [index, value] : llvm::enumerate(turn)) {
    BlockArgument argument = own.getRegionIterArg(state + index);
    argument.replaceAllUsesWith(value);
    own.getBody()->getTerminator()->setOperand(state + index, argument);
  }

  Value any = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, end, loop.getLowerBound());
  SmallVector<Value> begin(loop.getInitArgs().drop_front(state));
  SmallVector<Type> types = llvm::map_to_vector(begin, [](Value value) { return value.getType(); });
  auto branch = scf::IfOp::create(builder, loc, types, any, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder over = OpBuilder::atBlockEnd(branch.thenBlock()), same = OpBuilder::atBlockEnd(branch.elseBlock());
  SmallVector<Value> next{withTurns(over, arith::AddIOp::create(over, loc, outer.getInductionVar(), outer.getStep())),
                          lower};
  llvm::append_range(next, ofIteration(over, next[0]));
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
