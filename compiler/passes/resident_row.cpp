#include "compiler/passes/resident_row.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/passes/program_loop.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number))) return std::nullopt;
  return number.getSExtValue();
}

// Positions of a loop from 0 to a constant by 1.
std::optional<int64_t> positionsOf(scf::ForOp loop) {
  auto begin = constantOf(loop.getLowerBound()), end = constantOf(loop.getUpperBound()),
       step = constantOf(loop.getStep());
  if (begin != 0 || step != 1 || !end) return std::nullopt;
  return end;
}

Value withoutExtension(Value value) {
  auto extension = value.getDefiningOp<arith::ExtSIOp>();
  return extension ? extension.getIn() : value;
}

// One that cannot be negative: a program's own, of 32 bits or more.
bool isProgramNumber(Value value) {
  while (isa_and_nonnull<arith::ExtSIOp, arith::TruncIOp>(value.getDefiningOp())) {
    if (value.getType().getIntOrFloatBitWidth() < 32) return false;
    value = value.getDefiningOp()->getOperand(0);
  }
  if (value.getDefiningOp<tile::ProgramIdOp>()) return true;
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<scf::WhileOp>(argument.getOwner()->getParentOp()) : scf::WhileOp();
  return loop && loop->hasAttr(tile::kIndependentAttr) && argument.getArgNumber() == 0;
}

// Rule A. The last axis is the one that blocks follow each other on.
bool isAligned(tile::LoadTileOp load) {
  tile::ViewType view = load.getView().getType();
  ArrayRef<int64_t> shape = load.getTileShape();
  if (view.isDynamicDim(shape.size() - 1) || view.getStrides().back() != 1 ||
      shape.back() * view.getElementBytes() % ResidentRow::kGroupBytes != 0)
    return false;
  if (load.getLead()) return tile::leadAligns(load.getLead(), load.getView(), load.getIndices(), shape);
  return llvm::all_of(shape.drop_back(), [](int64_t size) { return size <= 1; }) &&
         !tile::rowsMayBeginInsideVectors(view);
}

}  // namespace

std::optional<ResidentRow> ResidentRow::of(ArrayRef<tile::LoadTileOp> all) {
  SmallVector<tile::LoadTileOp> loads;
  for (tile::LoadTileOp load : all)
    if (isa<scf::ForOp>(load->getParentOp())) loads.push_back(load);
  if (loads.empty() || loads.size() > 2 || !isAligned(loads[0])) return std::nullopt;
  ResidentRow row;
  row.firstLoad = loads[0];
  row.first = cast<scf::ForOp>(row.firstLoad->getParentOp());
  row.findPromises();
  if (loads.size() == 1) return row.isTheSameForAllPrograms() ? std::optional(row) : std::nullopt;
  row.secondLoad = loads[1];
  if (!row.loopsMatch() || !row.sameBlocks() || row.mayBeWritten(/*before=*/true)) return std::nullopt;
  return row;
}

// Rule S.
bool ResidentRow::isTheSameForAllPrograms() {
  std::optional<ProgramLoop> programs = ProgramLoop::around(first);
  std::optional<int64_t> count = positionsOf(first);
  if (!programs || !count || *count < 1) return false;
  positions = *count;
  promised.reset();  // a program's promise says nothing of what is filled before the first one
  return llvm::all_of(firstLoad.getIndices(), [&](Value index) { return collect(index); }) &&
         llvm::all_of(outerValues(), [&](Value value) { return programs->isOutside(value); }) &&
         !mayBeWritten(/*before=*/false);
}

bool ResidentRow::loopsMatch() {
  second = cast<scf::ForOp>(secondLoad->getParentOp());
  if (first == second || first->getBlock() != second->getBlock() || !first->isBeforeInBlock(second)) return false;
  if (first->getParentOfType<LoopLikeOpInterface>() && !ProgramLoop::around(first)) return false;
  std::optional<int64_t> count = positionsOf(first);
  if (!count || *count < 2 || positionsOf(second) != count) return false;
  positions = *count;
  return firstLoad.getView() == secondLoad.getView() && firstLoad.getTileShape() == secondLoad.getTileShape() &&
         firstLoad.getPadAttr() == secondLoad.getPadAttr() && firstLoad.getLead() == secondLoad.getLead();
}

// All indices but the last are one value from outside of the loops; the last obeys rule M.
bool ResidentRow::sameBlocks() {
  auto indices = firstLoad.getIndices(), mirrored = secondLoad.getIndices();
  if (firstLoad.getLead() && !first.isDefinedOutsideOfLoop(firstLoad.getLead())) return false;
  for (auto [a, b] : llvm::zip_equal(indices.drop_back(), mirrored.drop_back()))
    if (!mirrors(a, b) || !first.isDefinedOutsideOfLoop(a)) return false;
  return mirrors(indices.back(), mirrored.back()) && collect(indices.back());
}

bool ResidentRow::fillsBlocks() {
  ArrayRef<int64_t> size = firstLoad.getView().getType().getShape();
  Value index = withoutExtension(firstLoad.getIndices().back());
  return !firstLoad.getLead() && (index == first.getInductionVar() || isReversedCounter(index, first)) &&
         positions * firstLoad.getTileShape().back() <= size.back();
}

void ResidentRow::findPromises() {
  auto isAssumed = [&](Operation* condition) {
    return llvm::any_of(condition->getUsers(), [&](Operation* user) {
      Operation* here = user->getBlock()->findAncestorOpInBlock(*first);
      return isa<tile::AssumeOp>(user) && here && user->isBeforeInBlock(here);
    });
  };
  auto indices = firstLoad.getIndices().drop_back();
  promised.resize(indices.size());
  for (auto [axis, index] : llvm::enumerate(indices)) {
    auto says = [&, axis = axis, index = index](Operation* user) {
      auto compare = dyn_cast<arith::CmpIOp>(user);
      if (!compare || compare.getLhs() != index || !isAssumed(compare)) return false;
      auto dim = compare.getRhs().getDefiningOp<tile::DimOp>();
      const bool least = compare.getPredicate() == arith::CmpIPredicate::ult ||
                         (compare.getPredicate() == arith::CmpIPredicate::slt && isProgramNumber(index));
      return least && dim && dim.getView() == firstLoad.getView() && dim.getAxis() == axis;
    };
    promised[axis] = llvm::any_of(index.getUsers(), says);
  }
}

bool ResidentRow::mirrors(Value a, Value b) {
  if (a == first.getInductionVar()) return isReversedCounter(b, second);
  // A value from outside of both, or a pair that was compared before: a difference would have ended it all.
  if (a == b || !compared.insert({a, b}).second) return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (!left || !right || left->getName() != right->getName() || left->getNumRegions() || !isPure(left) ||
      left->getAttrDictionary() != right->getAttrDictionary() || a.getType() != b.getType() ||
      left->getNumOperands() != right->getNumOperands() ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber())
    return false;
  return llvm::all_of(llvm::zip_equal(left->getOperands(), right->getOperands()),
                      [&](auto pair) { return mirrors(std::get<0>(pair), std::get<1>(pair)); });
}

bool ResidentRow::isReversedCounter(Value value, scf::ForOp loop) {
  auto difference = value.getDefiningOp<arith::SubIOp>();
  return difference && constantOf(difference.getLhs()) == positions - 1 &&
         difference.getRhs() == loop.getInductionVar();
}

// Rules W and S: before the end of the first loop, or anywhere.
bool ResidentRow::mayBeWritten(bool before) {
  MemoryAccess row = *memoryAccess(firstLoad);
  bool written = false;
  first->getParentOfType<func::FuncOp>().walk<WalkOrder::PreOrder>([&](Operation* op) {
    Operation* here = first->getBlock()->findAncestorOpInBlock(*op);
    if (before && here && first->isBeforeInBlock(here)) return WalkResult::interrupt();
    std::optional<MemoryAccess> access = memoryAccess(op);
    written = written || (access && access->writes && mayOverlap(*access, row));
    return WalkResult::advance();
  });
  return written;
}

// The body's ops that compute `value` from the first loop's counter, in order.
bool ResidentRow::collect(Value value) {
  if (value == first.getInductionVar() || first.isDefinedOutsideOfLoop(value)) return true;
  Operation* op = value.getDefiningOp();
  if (!op || op->getNumRegions() || !isPure(op)) return false;
  if (slice.contains(op)) return true;
  if (!llvm::all_of(op->getOperands(), [&](Value operand) { return collect(operand); })) return false;
  slice.insert(op);
  return true;
}

llvm::SetVector<Value> ResidentRow::outerValues() {
  llvm::SetVector<Value> values;
  auto add = [&](Value value) {
    if (first.isDefinedOutsideOfLoop(value)) values.insert(value);
  };
  for (Operation* op : slice) llvm::for_each(op->getOperands(), add);
  llvm::for_each(firstLoad.getIndices(), add);
  if (firstLoad.getLead()) add(firstLoad.getLead());
  return values;
}

}  // namespace ligerdsl::compiler
