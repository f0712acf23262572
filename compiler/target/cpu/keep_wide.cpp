#include "compiler/target/cpu/keep_wide.h"

#include "compiler/dialect/tile.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static bool isBitwise(Operation* op) {
  return isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

static RankedTensorType tileOf(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

static bool isWidened(Value value) {
  return llvm::any_of(value.getUsers(),
                      [](Operation* user) { return isa<arith::ExtUIOp, arith::ExtSIOp>(user); });
}

// Returns `narrow` zero-extended to `wide` if it is a constant or a splat, else null.
static Value widenUniform(OpBuilder& b, Location loc, Value narrow, RankedTensorType wide) {
  APInt number;
  if (matchPattern(narrow, m_ConstantInt(&number))) {
    const unsigned bits = wide.getElementTypeBitWidth();
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(wide, number.zext(bits)));
  }
  auto splat = narrow.getDefiningOp<tile::SplatOp>();
  if (!splat) return {};
  Value scalar = arith::ExtUIOp::create(b, loc, wide.getElementType(), splat.getSource());
  return tile::SplatOp::create(b, loc, wide, scalar);
}

// Applies rewrites 1 and 2 of keep_wide.h.
static void widenBitwise(OpBuilder& b, Operation* op) {
  auto left = op->getOperand(0).getDefiningOp<arith::TruncIOp>(),
       right = op->getOperand(1).getDefiningOp<arith::TruncIOp>();
  if (!left && !right) return;
  auto wide = tileOf((left ? left : right).getIn());
  if (!wide) return;
  b.setInsertionPoint(op);
  Value a = left ? left.getIn() : Value(), c = right ? right.getIn() : Value();
  if (left && right) {
    if (a.getType() != c.getType()) return;
  } else {
    if (!isWidened(op->getResult(0))) return;
    Value& missing = left ? c : a;
    missing = widenUniform(b, op->getLoc(), op->getOperand(left ? 1 : 0), wide);
    if (!missing) return;
  }
  OperationState state(op->getLoc(), op->getName(), {a, c}, {wide});
  Value result = b.create(state)->getResult(0);
  Value narrow = arith::TruncIOp::create(b, op->getLoc(), op->getResult(0).getType(), result);
  op->getResult(0).replaceAllUsesWith(narrow);
}

// Returns the value of type `wide` that `narrow` truncates, or null (for rewrite 3).
static Value truncatedFrom(Value narrow, Type wide) {
  auto trunc = narrow.getDefiningOp<arith::TruncIOp>();
  return trunc && trunc.getIn().getType() == wide ? trunc.getIn() : Value();
}

static void widenAgain(OpBuilder& b, arith::ExtUIOp op) {
  auto wide = tileOf(op.getResult());
  Value source = wide ? truncatedFrom(op.getIn(), wide) : Value();
  if (!source) return;
  b.setInsertionPoint(op);
  const APInt low = APInt::getLowBitsSet(wide.getElementTypeBitWidth(),
                                         getElementTypeOrSelf(op.getIn()).getIntOrFloatBitWidth());
  Value mask = arith::ConstantOp::create(b, op.getLoc(), DenseElementsAttr::get(wide, low));
  op.getResult().replaceAllUsesWith(arith::AndIOp::create(b, op.getLoc(), source, mask));
}

static void readThroughMask(arith::AndIOp op) {
  APInt mask;
  auto extended = op.getLhs().getDefiningOp<arith::ExtSIOp>();
  if (!extended || !tileOf(op.getResult()) || !matchPattern(op.getRhs(), m_ConstantInt(&mask)))
    return;
  if (mask.getActiveBits() > getElementTypeOrSelf(extended.getIn()).getIntOrFloatBitWidth()) return;
  if (Value source = truncatedFrom(extended.getIn(), op.getType()))
    op.getLhsMutable().assign(source);
}

void keepWide(func::FuncOp function) {
  OpBuilder b(function.getContext());
  // Visits ops in program order, so that operands are rewritten before their users.
  SmallVector<Operation*> ops;
  function.walk([&](Operation* op) { ops.push_back(op); });
  for (Operation* op : ops) {
    if (auto mask = dyn_cast<arith::AndIOp>(op)) readThroughMask(mask);
    if (auto extend = dyn_cast<arith::ExtUIOp>(op)) widenAgain(b, extend);
    if (isBitwise(op) && tileOf(op->getResult(0))) widenBitwise(b, op);
  }
}

}  // namespace ligerdsl::compiler::cpu
