#include "compiler/analysis/row_alignment.h"

#include <numeric>

#include "compiler/analysis/divisibility.h"
#include "compiler/dialect/slice_step.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int kMostProofSteps = 8;  // longest chain of defining ops that the proof follows

Value withoutExtensions(Value value) {
  while (isa_and_nonnull<arith::ExtSIOp, tile::AssumeDivisibleOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number))) return std::nullopt;
  return number.getSExtValue();
}

// Returns true if `value` is provably `base` plus a multiple of `modulus`, a power of two. A loop
// counter is the lower bound plus a multiple of the step.
bool differByMultiple(Value value, Value base, int64_t modulus, int steps = kMostProofSteps) {
  value = withoutExtensions(value);
  base = withoutExtensions(base);
  if (value == base) return true;
  const auto a = constantOf(value), b = constantOf(base);
  if (a && b) return (*a - *b) % modulus == 0;
  if (steps-- == 0) return false;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop && argument == loop.getInductionVar() && divisorOf(loop.getStep()) % modulus == 0 &&
           differByMultiple(loop.getLowerBound(), base, modulus, steps);
  }
  auto sum = value.getDefiningOp<arith::AddIOp>();
  if (!sum) return false;
  const auto isBaseAnd = [&](Value same, Value multiple) {
    return divisorOf(multiple) % modulus == 0 && differByMultiple(same, base, modulus, steps);
  };
  return isBaseAnd(sum.getLhs(), sum.getRhs()) || isBaseAnd(sum.getRhs(), sum.getLhs());
}

// Returns a divisor of the stride of an axis, in elements.
int64_t strideDivisor(tile::ViewType view, size_t axis) {
  return view.isDynamicStride(axis) ? view.getStrideDivisors()[axis] : view.getStrides()[axis];
}

// Returns true if the strides of two views along an axis are known and differ by a multiple of
// `vector` elements.
bool haveOneStride(tile::ViewType a, tile::ViewType b, size_t axis, int64_t vector) {
  return !a.isDynamicStride(axis) && !b.isDynamicStride(axis) &&
         (a.getStrides()[axis] - b.getStrides()[axis]) % vector == 0;
}

}  // namespace

bool alignmentOffsetAligns(Value alignmentOffset, Value view, ValueRange indices,
                           ArrayRef<int64_t> tileShape) {
  auto of = alignmentOffset ? alignmentOffset.getDefiningOp<tile::AlignmentOffsetOp>()
                            : tile::AlignmentOffsetOp();
  const auto type = cast<tile::ViewType>(view.getType());
  if (!of || !tile::rowsHaveOneOffset(type, tileShape)) return false;
  const bool isOneView = of.getView() == view;
  const auto other = of.getView().getType();
  const auto isAligned = [](tile::ViewType each) {
    return each.getAlignment() % tile::kVectorBytes == 0;
  };
  if (!isOneView &&
      (type.getRank() != other.getRank() || type.getElementBytes() != other.getElementBytes() ||
       !isAligned(type) || !isAligned(other)))
    return false;
  const int64_t vector = tile::kVectorBytes / type.getElementBytes();
  for (auto [axis, index] : llvm::enumerate(of.getIndices())) {
    const int64_t step = strideDivisor(type, axis);
    if (step % vector == 0 && strideDivisor(other, axis) % vector == 0) continue;
    if (!isOneView && !haveOneStride(type, other, axis, vector)) return false;
    if (!differByMultiple(indices[axis], index, vector / std::gcd(vector, step))) return false;
  }
  return true;
}

bool isShiftOfAlignedRow(tile::LoadTileOp load) {
  const auto type = cast<tile::ViewType>(load.getView().getType());
  const ArrayRef<int64_t> shape = load.getTileShape();
  const int64_t vector = tile::kVectorBytes / type.getElementBytes();
  TypedAttr pad = load.getPadAttr();
  const auto number = dyn_cast_or_null<FloatAttr>(pad);
  const bool zeros = !pad || (number && number.getValue().isPosZero());
  if (!load.getAlignmentOffset() || !zeros || type.getElementBytes() > 4 || shape.empty() ||
      !llvm::all_of(shape.drop_back(), [](int64_t size) { return size <= 1; }) ||
      shape.back() % vector != 0 || type.getAlignment() % tile::kVectorBytes != 0 ||
      type.isDynamicDim(shape.size() - 1) || type.getShape().back() < vector ||
      !llvm::isInt<31>(type.getShape().back()) || type.getStrides().back() != 1)
    return false;
  for (auto [axis, index] : llvm::enumerate(load.getIndices().drop_back()))
    if (constantOf(index) != 0 && strideDivisor(type, axis) % vector != 0) return false;
  return !alignmentOffsetAligns(load.getAlignmentOffset(), load.getView(), load.getIndices(),
                                shape);
}

bool isUnalignedArray(Operation* access) {
  // Loops are excluded, because the aligned words that are loaded and then shifted need many
  // registers.
  if (access->getParentOfType<LoopLikeOpInterface>()) return false;
  const auto isOne = [](auto op) {
    const auto type = cast<tile::ViewType>(op.getView().getType());
    if (type.getRank() != 1 || !type.isDynamicDim(0) || type.getStrides()[0] != 1) return false;
    const Type element = type.getElementType();
    if (!element.isIntOrFloat()) return false;
    const unsigned bits = element.getIntOrFloatBitWidth();
    constexpr int64_t kLanes = 32;
    const int64_t vector = tile::kVectorBytes / type.getElementBytes();
    if ((bits != 16 && bits != 32) || op.getTileShape()[0] % (kLanes * vector) != 0) return false;
    return op.getAlignmentOffset() ? !alignmentOffsetAligns(op.getAlignmentOffset(), op.getView(),
                                                            op.getIndices(), op.getTileShape())
                                   : type.getAlignment() % tile::kVectorBytes != 0;
  };
  if (auto load = dyn_cast<tile::LoadTileOp>(access)) return isOne(load);
  auto store = dyn_cast<tile::StoreTileOp>(access);
  return store && !store.getAdds() && isOne(store);
}

}  // namespace ligerdsl::compiler
