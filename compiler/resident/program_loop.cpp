#include "compiler/resident/program_loop.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/dialect/tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// A branch between the loop and an op, and whether the op is in its then block.
struct BranchSide {
  scf::IfOp branch;
  bool then;
};

// Returns the branches between the loop and the op, outermost first. Returns nothing if an op other
// than a branch is between them.
std::optional<SmallVector<BranchSide>> branchesTo(Operation* op, scf::WhileOp loop) {
  SmallVector<BranchSide> branches;
  for (Operation* parent; (parent = op->getParentOp()) != loop; op = parent) {
    auto branch = dyn_cast_or_null<scf::IfOp>(parent);
    if (!branch) return std::nullopt;
    branches.insert(branches.begin(), {branch, op->getBlock() == branch.thenBlock()});
  }
  return branches;
}

bool comesFromOutside(Value value, scf::WhileOp loop) {
  return !loop->isAncestor(value.getParentBlock()->getParentOp());
}

// Emits, before the op `at`, computations of the loop for the next program.
class Repeater {
 public:
  Repeater(scf::WhileOp loop, ArrayRef<BranchSide> branches, ValueRange wanted, Operation* at)
      : loop(loop),
        branches(branches),
        wanted(wanted),
        at(at),
        dominance(loop->getParentOfType<func::FuncOp>()) {}

  bool possible() {
    return isKnown(loop.getConditionOp().getCondition()) &&
           llvm::all_of(branches,
                        [&](BranchSide side) { return isKnown(side.branch.getCondition()); }) &&
           llvm::all_of(wanted, [&](Value value) {
             return !isa<ShapedType>(value.getType()) && isKnown(value);
           });
  }

  // Returns an i1 that is true if the next program reaches the op, then the values.
  SmallVector<Value> emit() {
    OpBuilder builder(at);
    return emitUnder(builder, loop.getConditionOp().getCondition(), /*then=*/true, 0, IRMapping());
  }

 private:
  bool isOutside(Value value) { return comesFromOutside(value, loop); }

  // Returns the value that the loop yields for an argument of its before region, which is the
  // argument's value in the next iteration. Returns null for other arguments.
  Value successor(BlockArgument argument) {
    if (argument.getOwner() == loop.getBeforeBody())
      return loop.getYieldOp().getOperand(argument.getArgNumber());
    return Value();
  }
  // Returns the value that the before region passes to an argument of the after region. Returns
  // null for other arguments.
  Value tested(BlockArgument argument) {
    return argument.getOwner() == loop.getAfterBody()
               ? loop.getConditionOp().getArgs()[argument.getArgNumber()]
               : Value();
  }

  bool isKnown(Value value) {
    if (isOutside(value)) return true;
    if (auto found = known.find(value); found != known.end()) return found->second;
    const bool result = isKnownInside(value);
    known[value] = result;
    return result;
  }

  bool isKnownInside(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (Value inTest = tested(argument)) return isKnown(inTest);
      Value after = successor(argument);
      return after && dominance.properlyDominates(after, at);
    }
    Operation* op = value.getDefiningOp();
    return op->getNumRegions() == 0 && (isPure(op) || readsConstantMemory(op)) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isKnown(operand); });
  }

  // Returns true for a scalar load from memory that the kernel does not write. Loads test their
  // bounds, so they are safe for any index.
  bool readsConstantMemory(Operation* op) {
    auto load = dyn_cast<tile::LoadTileOp>(op);
    if (!load || isa<ShapedType>(load.getType())) return false;
    MemoryAccess read = memoryAccess(load);
    auto written = loop->getParentOfType<func::FuncOp>().walk([&](Operation* other) {
      return mayWriteTo(other, read) ? WalkResult::interrupt() : WalkResult::advance();
    });
    return !written.wasInterrupted();
  }

  Value emit(OpBuilder& builder, Value value, IRMapping& mapping) {
    if (isOutside(value)) return value;
    if (Value known = mapping.lookupOrNull(value)) return known;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Value inTest = tested(argument);
      return inTest ? emit(builder, inTest, mapping) : successor(argument);
    }
    Operation* op = value.getDefiningOp();
    for (Value operand : op->getOperands()) mapping.map(operand, emit(builder, operand, mapping));
    builder.clone(*op, mapping);
    return mapping.lookup(value);
  }

  // Computes the later conditions and the values only if `condition` equals `then`, as the program
  // itself does.
  SmallVector<Value> emitUnder(OpBuilder& builder, Value condition, bool then, size_t depth,
                               IRMapping mapping) {
    Location loc = at->getLoc();
    SmallVector<Type> types{builder.getI1Type()};
    llvm::append_range(types, wanted.getTypes());
    auto branch = scf::IfOp::create(builder, loc, types, emit(builder, condition, mapping),
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder onWay = OpBuilder::atBlockEnd(then ? branch.thenBlock() : branch.elseBlock());
    OpBuilder offWay = OpBuilder::atBlockEnd(then ? branch.elseBlock() : branch.thenBlock());
    SmallVector<Value> found;
    if (depth < branches.size()) {
      found = emitUnder(onWay, scf::IfOp(branches[depth].branch).getCondition(),
                        branches[depth].then, depth + 1, mapping);
    } else {
      found.push_back(arith::ConstantOp::create(onWay, loc, onWay.getBoolAttr(true)));
      for (Value value : wanted) found.push_back(emit(onWay, value, mapping));
    }
    scf::YieldOp::create(onWay, loc, found);
    SmallVector<Value> none;
    for (Type type : types)
      none.push_back(
          arith::ConstantOp::create(offWay, loc, cast<TypedAttr>(offWay.getZeroAttr(type))));
    scf::YieldOp::create(offWay, loc, none);
    return llvm::to_vector_of<Value>(branch.getResults());
  }

  scf::WhileOp loop;
  ArrayRef<BranchSide> branches;
  ValueRange wanted;
  Operation* at;
  DominanceInfo dominance;
  llvm::DenseMap<Value, bool> known;
};

// Replaces the branch by one with additional results, which its two blocks yield.
scf::IfOp withResults(scf::IfOp branch, ValueRange then, ValueRange otherwise) {
  OpBuilder builder(branch);
  SmallVector<Type> types(branch.getResultTypes());
  llvm::append_range(types, then.getTypes());
  auto wider = scf::IfOp::create(builder, branch.getLoc(), types, branch.getCondition(),
                                 /*addThenBlock=*/false,
                                 /*addElseBlock=*/false);
  for (auto [to, from, values] :
       {std::tuple(&wider.getThenRegion(), &branch.getThenRegion(), then),
        std::tuple(&wider.getElseRegion(), &branch.getElseRegion(), otherwise)}) {
    to->takeBody(*from);
    if (to->empty()) {
      OpBuilder inside = OpBuilder::atBlockEnd(&to->emplaceBlock());
      scf::YieldOp::create(inside, branch.getLoc(), values);
    } else {
      to->front().getTerminator()->insertOperands(to->front().getTerminator()->getNumOperands(),
                                                  values);
    }
  }
  branch.replaceAllUsesWith(wider.getResults().take_front(branch.getNumResults()));
  branch.erase();
  return wider;
}

// Returns true if the argument is the program number of a loop over programs.
bool isProgramNumber(BlockArgument argument) {
  auto loop = dyn_cast_or_null<scf::WhileOp>(argument.getOwner()->getParentOp());
  return loop && loop->hasAttr(tile::kIndependentAttr) && argument.getArgNumber() == 0;
}

}  // namespace

IndexOrigin originOf(ValueRange indices) {
  IndexOrigin origin;
  SmallVector<Value> from(indices);
  llvm::SmallPtrSet<Operation*, 16> seen;
  while (!from.empty()) {
    Value value = from.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(value)) origin.program |= isProgramNumber(argument);
    Operation* op = value.getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    if (auto id = dyn_cast<tile::ProgramIdOp>(op)) origin.program |= id.getAxis() == 0;
    origin.memory |= !isMemoryEffectFree(op);
    llvm::append_range(from, op->getOperands());
  }
  return origin;
}

std::optional<ProgramLoop> ProgramLoop::around(Operation* op) {
  scf::WhileOp loop;
  for (Operation* parent = op->getParentOp(); parent && !loop; parent = parent->getParentOp())
    loop = dyn_cast<scf::WhileOp>(parent);
  if (!loop || !loop->hasAttr(tile::kIndependentAttr) || !isa<func::FuncOp>(loop->getParentOp()) ||
      !branchesTo(op, loop))
    return std::nullopt;
  return ProgramLoop(loop, op);
}

bool ProgramLoop::isOutside(Value value) {
  return comesFromOutside(value, loop);
}

std::optional<ProgramLoop::Next> ProgramLoop::next(ValueRange values, Operation* at) {
  SmallVector<BranchSide> branches = *branchesTo(op, loop);
  Repeater repeater(loop, branches, values, at);
  if (!repeater.possible()) return std::nullopt;
  SmallVector<Value> found = repeater.emit();
  return Next{found[0], SmallVector<Value>(llvm::drop_begin(found))};
}

SmallVector<Value> ProgramLoop::receive(ValueRange first) {
  OpBuilder builder(loop);
  SmallVector<Value> inits(loop.getInits());
  llvm::append_range(inits, first);
  SmallVector<Type> types(loop.getResultTypes());
  llvm::append_range(types, first.getTypes());
  auto wider = scf::WhileOp::create(builder, loop.getLoc(), types, inits);
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  wider.getBefore().takeBody(loop.getBefore());
  wider.getAfter().takeBody(loop.getAfter());
  SmallVector<Value> received;
  SmallVector<Location> locs(first.size(), loop.getLoc());
  auto before = wider.getBeforeBody()->addArguments(first.getTypes(), locs);
  wider.getConditionOp().getArgsMutable().append(llvm::to_vector_of<Value>(before));
  auto after = wider.getAfterBody()->addArguments(first.getTypes(), locs);
  received.append(after.begin(), after.end());
  loop.replaceAllUsesWith(wider.getResults().take_front(loop.getNumResults()));
  loop.erase();
  loop = wider;
  return received;
}

void ProgramLoop::leave(ValueRange reached, ValueRange otherwise) {
  SmallVector<Value> values(reached);
  for (BranchSide side : llvm::reverse(*branchesTo(op, loop))) {
    scf::IfOp wider = withResults(side.branch, side.then ? ValueRange(values) : otherwise,
                                  side.then ? otherwise : ValueRange(values));
    values = llvm::to_vector_of<Value>(wider.getResults().take_back(otherwise.size()));
  }
  loop.getYieldOp()->insertOperands(loop.getYieldOp()->getNumOperands(), values);
}

}  // namespace ligerdsl::compiler
