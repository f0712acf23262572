// Integer arithmetic may wrap, and a wrapped result keeps only divisors that are powers of two.
// Values that cannot wrap, such as constants, sizes, strides and loop counters, keep any divisor.
#include "compiler/analysis/divisibility.h"

#include <numeric>

#include "compiler/dialect/tile.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int kMostSteps = 8;  // longest chain of defining ops that the proof follows

int64_t product(int64_t a, int64_t b) {
  const int64_t most = powerOfTwoPart(0);
  int64_t result = 0;
  return llvm::MulOverflow(powerOfTwoPart(a), powerOfTwoPart(b), result) ? most
                                                                         : std::min(result, most);
}

int64_t sizeOf(bool isDynamic, int64_t number, int64_t divisor) {
  return isDynamic ? divisor : std::abs(number);
}

int64_t divisor(Value value, int steps);

int64_t ofBoth(Operation* op, unsigned first, int steps) {
  return std::gcd(divisor(op->getOperand(first), steps), divisor(op->getOperand(first + 1), steps));
}

int64_t ofArgument(BlockArgument argument, int steps) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument != loop.getInductionVar()) return 1;
  return std::gcd(divisor(loop.getLowerBound(), steps), divisor(loop.getStep(), steps));
}

int64_t divisor(Value value, int steps) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number))) {
    const auto magnitude = static_cast<int64_t>(number.abs().getZExtValue());
    return magnitude < 0 ? powerOfTwoPart(0) : magnitude;
  }
  if (steps-- == 0) return 1;
  if (auto argument = dyn_cast<BlockArgument>(value)) return ofArgument(argument, steps);
  Operation* op = value.getDefiningOp();
  if (auto assumed = dyn_cast<tile::AssumeDivisibleOp>(op)) {
    const int64_t before = divisor(assumed->getOperand(0), steps),
                  said = static_cast<int64_t>(assumed.getDivisor());
    return before % said == 0 ? before : said;
  }
  if (auto dim = dyn_cast<tile::DimOp>(op)) {
    tile::ViewType view = dim.getView().getType();
    return sizeOf(view.isDynamicDim(dim.getAxis()), view.getShape()[dim.getAxis()],
                  view.getDimDivisors()[dim.getAxis()]);
  }
  if (auto stride = dyn_cast<tile::StrideOp>(op)) {
    tile::ViewType view = stride.getView().getType();
    return sizeOf(view.isDynamicStride(stride.getAxis()), view.getStrides()[stride.getAxis()],
                  view.getStrideDivisors()[stride.getAxis()]);
  }
  if (isa<arith::ExtSIOp>(op)) return divisor(op->getOperand(0), steps);
  if (isa<arith::TruncIOp>(op)) return powerOfTwoPart(divisor(op->getOperand(0), steps));
  if (isa<arith::AddIOp, arith::SubIOp>(op)) return powerOfTwoPart(ofBoth(op, 0, steps));
  if (isa<arith::MulIOp>(op))
    return product(divisor(op->getOperand(0), steps), divisor(op->getOperand(1), steps));
  if (isa<arith::MinSIOp, arith::MaxSIOp>(op)) return ofBoth(op, 0, steps);
  if (isa<arith::SelectOp>(op)) return ofBoth(op, 1, steps);
  return 1;
}

}  // namespace

int64_t divisorOf(Value value) {
  return divisor(value, kMostSteps);
}

}  // namespace ligerdsl::compiler
