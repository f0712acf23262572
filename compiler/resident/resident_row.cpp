#include "compiler/resident/resident_row.h"

#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/row_alignment.h"
#include "compiler/remarks.h"
#include "compiler/resident/program_loop.h"
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

// Returns the iteration count of a loop that runs from 0 to a constant with step 1.
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

// Returns true for a program number of 32 bits or more, which cannot be negative.
bool isProgramNumber(Value value) {
  while (isa_and_nonnull<arith::ExtSIOp, arith::TruncIOp>(value.getDefiningOp())) {
    if (value.getType().getIntOrFloatBitWidth() < 32) return false;
    value = value.getDefiningOp()->getOperand(0);
  }
  if (value.getDefiningOp<tile::ProgramIdOp>()) return true;
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop =
      argument ? dyn_cast<scf::WhileOp>(argument.getOwner()->getParentOp()) : scf::WhileOp();
  return loop && loop->hasAttr(tile::kIndependentAttr) && argument.getArgNumber() == 0;
}

// Names the first stride, or else the address, that may differ from a multiple of 16 bytes, and
// says what is known of it.
std::string unalignedPart(tile::ViewType view) {
  const std::string known = " is only known to be a multiple of ";
  for (size_t axis = 0; axis + 1 < static_cast<size_t>(view.getRank()); ++axis) {
    const bool open = view.isDynamicStride(axis);
    const int64_t bytes =
        view.getElementBytes() * (open ? view.getStrideDivisors()[axis] : view.getStrides()[axis]);
    if (bytes % ResidentRow::kGroupBytes != 0)
      return "the stride of dimension " + std::to_string(axis) + (open ? known : " is ") +
             std::to_string(bytes) + " bytes";
  }
  return "the view's address" + known + std::to_string(view.getAlignment()) + " bytes";
}

// Returns how rule A is broken, or an empty text. Blocks follow each other along the last axis.
std::string reasonNotAligned(tile::LoadTileOp load) {
  tile::ViewType view = load.getView().getType();
  ArrayRef<int64_t> shape = load.getTileShape();
  const int64_t group = ResidentRow::kGroupBytes;
  if (load.getView().getDefiningOp())
    return "it is part of a slice; take the row from the view itself";
  if (view.isDynamicDim(shape.size() - 1))
    return "its width is not known; give the view's last dimension as a number";
  if (view.getStrides().back() != 1)
    return "its elements are not contiguous; the last stride of the view must be 1";
  if (shape.back() * view.getElementBytes() % group != 0)
    return "a block of " + std::to_string(shape.back() * view.getElementBytes()) +
           " bytes is not a multiple of " + std::to_string(group) + " bytes";
  if (!llvm::all_of(shape.drop_back(), [](int64_t size) { return size <= 1; }))
    return "a block has elements of several rows; use tiles of one row";
  if (load.getAlignmentOffset()) {
    if (alignmentOffsetAligns(load.getAlignmentOffset(), load.getView(), load.getIndices(), shape))
      return "";
    return "its alignment offset is not provably that of its row; use View::alignment_offset of "
           "this row";
  }
  if (tile::rowsMayBeginInsideVectors(view))
    return "rows are not known to begin at multiples of 16 bytes: " + unalignedPart(view) +
           "; load with an alignment offset (View::alignment_offset)";
  return "";
}

}  // namespace

std::optional<ResidentRow> ResidentRow::of(ArrayRef<tile::LoadTileOp> all, std::string& why) {
  SmallVector<tile::LoadTileOp> loads;
  for (tile::LoadTileOp load : all)
    if (isa<scf::ForOp>(load->getParentOp())) loads.push_back(load);
  if (loads.empty() || loads.size() > 2) {
    why =
        std::to_string(loads.size()) +
        " loads in loops read its blocks; a resident row needs two, or one if the row is the same "
        "for all programs";
    return std::nullopt;
  }
  if (why = reasonNotAligned(loads[0]); !why.empty()) return std::nullopt;
  ResidentRow row;
  row.firstLoad = loads[0];
  row.first = cast<scf::ForOp>(row.firstLoad->getParentOp());
  row.findPromises();
  bool kept = false;
  if (loads.size() == 1) {
    kept = row.isTheSameForAllPrograms();
  } else {
    row.secondLoad = loads[1];
    kept = row.loopsMatch() && row.sameBlocks() && !row.writer(/*before=*/true);
  }
  why = row.reason;
  return kept ? std::optional(row) : std::nullopt;
}

// Returns true if rule S holds.
bool ResidentRow::isTheSameForAllPrograms() {
  std::optional<ProgramLoop> programs = ProgramLoop::around(first);
  std::optional<int64_t> count = positionsOf(first);
  reason =
      "only one loop reads it, and that needs the same row in all programs of a loop over programs "
      "(dynamic_persistent), and a loop from 0 to a constant; read it in a second loop, or load it "
      "without resident()";
  if (!programs || !count || *count < 1) return false;
  positions = *count;
  // A program's promise does not cover copies that start before the first program.
  promised.reset();
  return llvm::all_of(firstLoad.getIndices(), [&](Value index) { return collect(index); }) &&
         llvm::all_of(outerValues(), [&](Value value) { return programs->isOutside(value); }) &&
         !writer(/*before=*/false);
}

bool ResidentRow::loopsMatch() {
  second = cast<scf::ForOp>(secondLoad->getParentOp());
  reason = "one loop loads it twice; load the block once in each of two loops";
  if (first == second) return false;
  reason =
      "its two loops are not consecutive loops at the same nesting level; put them one after the "
      "other";
  if (first->getBlock() != second->getBlock() || !first->isBeforeInBlock(second)) return false;
  reason =
      "its two loops are inside another loop, which is not the loop over programs "
      "(dynamic_persistent); remove the outer loop";
  if (first->getParentOfType<LoopLikeOpInterface>() && !ProgramLoop::around(first)) return false;
  reason =
      "both loops must run from 0 to the same constant number of blocks, 2 or more, in steps of 1";
  std::optional<int64_t> count = positionsOf(first);
  if (!count || *count < 2 || positionsOf(second) != count) return false;
  positions = *count;
  reason =
      "its two loads differ in view, tile shape, pad or alignment offset; use the same in both "
      "loops";
  return firstLoad.getView() == secondLoad.getView() &&
         firstLoad.getTileShape() == secondLoad.getTileShape() &&
         firstLoad.getPadAttr() == secondLoad.getPadAttr() &&
         firstLoad.getAlignmentOffset() == secondLoad.getAlignmentOffset();
}

// Returns true if the last index obeys rule M, and all other indices are the same in both loops.
// These and the alignment offset must be defined outside of the loops.
bool ResidentRow::sameBlocks() {
  auto indices = firstLoad.getIndices(), mirrored = secondLoad.getIndices();
  reason =
      "its row index or alignment offset is computed inside the loops; compute it before the first "
      "loop";
  if (firstLoad.getAlignmentOffset() &&
      !first.isDefinedOutsideOfLoop(firstLoad.getAlignmentOffset()))
    return false;
  for (auto [a, b] : llvm::zip_equal(indices.drop_back(), mirrored.drop_back())) {
    if (!mirrors(a, b)) {
      reason = "its two loops do not provably read the same row; use one row index in both";
      return false;
    }
    if (!first.isDefinedOutsideOfLoop(a)) return false;
  }
  reason =
      "the second loop must read the blocks in reverse order: r.load(i) in the first loop, "
      "r.load(blocks - 1 - i) in the second";
  return mirrors(indices.back(), mirrored.back()) && collect(indices.back());
}

bool ResidentRow::fillsBlocks() {
  ArrayRef<int64_t> size = firstLoad.getView().getType().getShape();
  Value index = withoutExtension(firstLoad.getIndices().back());
  return !firstLoad.getAlignmentOffset() &&
         (index == first.getInductionVar() || isReversedCounter(index, first)) &&
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
      const bool least =
          compare.getPredicate() == arith::CmpIPredicate::ult ||
          (compare.getPredicate() == arith::CmpIPredicate::slt && isProgramNumber(index));
      return least && dim && dim.getView() == firstLoad.getView() && dim.getAxis() == axis;
    };
    promised[axis] = llvm::any_of(index.getUsers(), says);
  }
}

bool ResidentRow::mirrors(Value a, Value b) {
  if (a == first.getInductionVar()) return isReversedCounter(b, second);
  // `a` and `b` are one value from outside of both loops, or were compared before. A difference
  // would already have returned false.
  if (a == b || !compared.insert({a, b}).second) return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (!left || !right || left->getName() != right->getName() || left->getNumRegions() ||
      !isPure(left) || left->getAttrDictionary() != right->getAttrDictionary() ||
      a.getType() != b.getType() || left->getNumOperands() != right->getNumOperands() ||
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

// Returns an op that may write the row, or null (rules W and S). With `before`, searches only up to
// the end of the first loop.
Operation* ResidentRow::writer(bool before) {
  MemoryAccess row = memoryAccess(firstLoad);
  Operation* found = nullptr;
  first->getParentOfType<func::FuncOp>().walk<WalkOrder::PreOrder>([&](Operation* op) {
    Operation* here = first->getBlock()->findAncestorOpInBlock(*op);
    if (before && here && first->isBeforeInBlock(here)) return WalkResult::interrupt();
    if (!found && mayWriteTo(op, row)) found = op;
    return WalkResult::advance();
  });
  if (found)
    reason = "the op at " + placeOf(found) + " may write the row" +
             (before ? " before the first loop ends" : "") +
             "; if it writes another argument, promise that the arguments do not overlap "
             "(no_alias); otherwise " +
             (before ? "move it after the first loop" : "load the row without resident()");
  return found;
}

// Collects the body's ops that compute `value` from the first loop's counter, in order. Returns
// false unless all of them are pure.
bool ResidentRow::collect(Value value) {
  if (value == first.getInductionVar() || first.isDefinedOutsideOfLoop(value)) return true;
  Operation* op = value.getDefiningOp();
  if (!op || op->getNumRegions() || !isPure(op)) return false;
  if (slice.contains(op)) return true;
  if (!llvm::all_of(op->getOperands(), [&](Value operand) { return collect(operand); }))
    return false;
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
  if (firstLoad.getAlignmentOffset()) add(firstLoad.getAlignmentOffset());
  return values;
}

}  // namespace ligerdsl::compiler
