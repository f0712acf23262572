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

// What of the outer loop's body may write what a load reads, or talks to other programs.
Operation* writerOf(scf::ForOp outer, tile::LoadTileOp load) {
  const MemoryAccess read = memoryAccess(load);
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
    if (Operation* writer = writerOf(sequence.outer, load)) {
      why = "what is at " + placeOf(writer) +
            " may write what they read; promise that the arguments do not overlap (no_alias)";
      return std::nullopt;
    }
  SetVector<Operation*> slice;
  for (Value bound : {at.loop.getLowerBound(), at.loop.getUpperBound(), at.loop.getStep()}) {
    bool follows = false;
    if (!sequence.collect(bound, slice, follows) || follows) {
      why = "the loop's bounds are not the same in all iterations of the loop around it";
      return std::nullopt;
    }
  }
  if (!sequence.collectIndices(loads)) {
    why = "their places depend on more than the counters of both loops and values from outside";
    return std::nullopt;
  }
  return sequence;
}

// As PipelinedLoop::addSlice, of the outer body. Divisions by zero do not trap, so all that touches no memory may be repeated.
bool TurnSequence::collect(Value value, SetVector<Operation*>& slice, bool& follows) {
  if (value == outer.getInductionVar()) return follows = true;
  if (isOutside(value)) return true;
  Operation* op = value.getDefiningOp();
  if (!op || op->getNumRegions() || !isMemoryEffectFree(op) || at->loop->isAncestor(op)) return false;
  for (Value operand : op->getOperands())
    if (!collect(operand, slice, follows)) return false;
  slice.insert(op);
  return true;
}

bool TurnSequence::collectIndices(ArrayRef<tile::LoadTileOp> loads) {
  SetVector<Operation*> inner;
  bool any = false;
  SmallVector<Value> used;
  for (tile::LoadTileOp load : loads) {
    if (!isOutside(load.getView())) return false;
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

SmallVector<Value> TurnSequence::first(OpBuilder& builder) {
  lower = hoisted(builder, at->loop.getLowerBound());
  upper = hoisted(builder, at->loop.getUpperBound());
  step = hoisted(builder, at->loop.getStep());
  for (Value value : fixed) hoisted(builder, value);
  SmallVector<Value> turn{outer.getLowerBound(), lower};
  llvm::append_range(turn, ofIteration(builder, outer.getLowerBound()));
  return turn;
}

SmallVector<Value> TurnSequence::next(OpBuilder& builder, ValueRange turn) {
  Location loc = at->loop.getLoc();
  Value counter = arith::AddIOp::create(builder, loc, turn[1], step);
  Value over = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, counter, upper);
  Value later = arith::AddIOp::create(builder, loc, turn[0], outer.getStep());
  SmallVector<Value> result{arith::SelectOp::create(builder, loc, over, later, turn[0]),
                            arith::SelectOp::create(builder, loc, over, lower, counter)};
  if (following.empty()) return result;
  ValueRange held = turn.drop_front(2);
  auto branch = scf::IfOp::create(builder, loc, held.getTypes(), over, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder moved = OpBuilder::atBlockEnd(branch.thenBlock()), stays = OpBuilder::atBlockEnd(branch.elseBlock());
  scf::YieldOp::create(moved, loc, ofIteration(moved, result[0]));
  scf::YieldOp::create(stays, loc, held);
  llvm::append_range(result, branch.getResults());
  return result;
}

Value TurnSequence::isTurn(OpBuilder& builder, ValueRange turn) {
  const auto less = [&](Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, at->loop.getLoc(), arith::CmpIPredicate::slt, a, b);
  };
  Value ofOuter = less(turn[0], outer.getUpperBound()), ofInner = less(turn[1], upper);
  return arith::AndIOp::create(builder, at->loop.getLoc(), ofOuter, ofInner);
}

IRMapping TurnSequence::values(ValueRange turn) {
  IRMapping mapping;
  mapping.map(outer.getInductionVar(), turn[0]);
  for (Value value : fixed) mapping.map(value, inFront.lookupOrDefault(value));
  for (auto [value, held] : llvm::zip_equal(following, turn.drop_front(2))) mapping.map(value, held);
  return mapping;
}

// All tiles have as many turns. With more than `ahead`, a tile begins when the copies are `ahead` turns further in it, and its
// last `ahead` turns fill the first ones of the next tile; with less, there is no turn of the first kind.
void TurnSequence::separateOwnTurns(scf::ForOp loop, int64_t ahead) {
  if (!matchPattern(loop.getStep(), m_One())) return;
  const Location loc = loop.getLoc();
  const unsigned carried = loop.getNumRegionIterArgs(), state = carried - 2 - following.size();
  OpBuilder builder(loop);
  const auto number = [&](OpBuilder& at) -> Value {
    return arith::ConstantOp::create(at, loc, at.getIntegerAttr(loop.getUpperBound().getType(), ahead));
  };
  Value end = arith::SubIOp::create(builder, loc, loop.getUpperBound(), number(builder));

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
  SmallVector<Value> next{arith::AddIOp::create(over, loc, outer.getInductionVar(), outer.getStep()), lower};
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
