// tgpu-defer-reductions
//
// A loop that combines a carried value with the reduction of a tile, for example by a sum or a
// maximum, needs the complete result only after the loop. The pass rewrites each carried value
// `carried = combine(carried, reduce(tile))` if the reduction uses the same operation `combine`,
// and nothing else in the loop reads the carried value:
//
//   1. In the loop, each thread combines its own registers (tgpu.reduce_in_thread) with its part of
//      the carried value. This part starts as the operation's neutral element. Threads exchange
//      nothing.
//   2. After the loop, one tile.reduce combines the parts, and `combine` includes the loop's
//      initial value.
//
// The compiler may choose the order of a sum (docs/reference/dsl-reductions.md), so this is always
// allowed. Reductions within threads stay in the loop, and so do reductions of pairs by an author's
// combiner. A remark reports a reduction that stays, crosses warps and feeds a carried value, if
// the loop could carry a value per lane instead.
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUDEFERREDUCTIONSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;

// Returns a layout of one value per thread along the axis, the result of reduce_in_thread. The i-th
// lane, warp or CTA bit that moves along the axis becomes bit i of the axis.
LinearLayout perThreadLayout(const LinearLayout& source, int axis) {
  const LinearLayout slice = source.slice(axis);
  const BitMasks along = source.along(axis);
  LinearLayout::Shape shape = slice.shape();
  int64_t threads = 1;
  const auto inserted = [&](Axis of, uint64_t moving) {
    Bases bases = slice.bases(of);
    for (auto [bit, basis] : llvm::enumerate(bases)) {
      const bool moves = moving >> bit & 1;
      basis.insert(basis.begin() + axis, moves ? threads : 0);
      if (moves) threads *= 2;
    }
    return bases;
  };
  Bases reg = inserted(Axis::reg, 0), lane = inserted(Axis::lane, along.lane),
        warp = inserted(Axis::warp, along.warp), cta = inserted(Axis::cta, along.cta);
  shape.insert(shape.begin() + axis, threads);
  return LinearLayout(shape, std::move(reg), std::move(lane), std::move(warp), std::move(cta));
}

// Carried value that each iteration of a loop combines with the reduction of a tile.
struct CarriedReduction {
  unsigned index;  // number of the carried value
  tile::ReduceOp reduce;
  tgpu::ConvertLayoutOp conversion;  // from the result to the carried value's layout, or null
  Operation* combine;
  TypedAttr neutral;
};

bool crossesThreads(tile::ReduceOp reduce) {
  const BitMasks along = layoutOf(reduce.getSources()[0]).along(static_cast<int>(reduce.getAxis()));
  return along.lane != 0 || along.warp != 0 || along.cta != 0;
}

bool crossesWarps(tile::ReduceOp reduce) {
  const BitMasks along = layoutOf(reduce.getSources()[0]).along(static_cast<int>(reduce.getAxis()));
  return along.warp != 0 || along.cta != 0;
}

// Returns true if the combiner consists of this operation on its two arguments.
bool combinesBy(tile::ReduceOp reduce, Operation* combine) {
  Block& body = reduce.getCombiner().front();
  if (body.getNumArguments() != 2 || !llvm::hasSingleElement(body.without_terminator()))
    return false;
  Operation& only = body.front();
  return only.getName() == combine->getName() && only.getNumOperands() == 2 &&
         llvm::all_of(only.getOperands(),
                      [&](Value value) {
                        return value == body.getArgument(0) || value == body.getArgument(1);
                      }) &&
         only.getOperand(0) != only.getOperand(1) &&
         body.getTerminator()->getOperand(0) == only.getResult(0);
}

// Returns the neutral element. For a sum of floats it is -0, because -0 + 0 is 0.
std::optional<TypedAttr> neutralOf(Operation* combine) {
  auto neutral = arith::getNeutralElement(combine);
  if (!neutral || !isa<arith::AddFOp>(combine)) return neutral;
  auto type = cast<FloatType>(neutral->getType());
  return FloatAttr::get(type, APFloat::getZero(type.getFloatSemantics(), /*Negative=*/true));
}

std::optional<CarriedReduction> match(scf::ForOp loop, unsigned index) {
  const Value carried = loop.getRegionIterArg(index);
  Operation* combine = loop.getYieldedValues()[index].getDefiningOp();
  if (!combine || combine->getBlock() != loop.getBody() || combine->getNumOperands() != 2)
    return std::nullopt;
  if (!combine->hasOneUse() || !carried.hasOneUse() ||
      !llvm::is_contained(combine->getOperands(), carried))
    return std::nullopt;
  const Value other = combine->getOperand(combine->getOperand(0) == carried ? 1 : 0);
  if (other == carried || !other.hasOneUse()) return std::nullopt;
  auto conversion = other.getDefiningOp<tgpu::ConvertLayoutOp>();
  const Value reduced = conversion ? conversion.getSource() : other;
  auto reduce = reduced.getDefiningOp<tile::ReduceOp>();
  if (!reduce || reduce->getBlock() != loop.getBody() || reduce->getNumResults() != 1 ||
      !reduced.hasOneUse())
    return std::nullopt;
  if (!crossesThreads(reduce) || !combinesBy(reduce, combine)) return std::nullopt;
  std::optional<TypedAttr> neutral = neutralOf(&reduce.getCombiner().front().front());
  if (!neutral) return std::nullopt;
  return CarriedReduction{index, reduce, conversion, combine, *neutral};
}

// Builds an operation like `like` on `a` and `b`, which may be tiles.
Value combined(OpBuilder& builder, Operation* like, Value a, Value b) {
  OperationState state(like->getLoc(), like->getName(), ValueRange{a, b}, a.getType(),
                       like->getAttrs());
  return builder.create(state)->getResult(0);
}

void takeCombiner(OpBuilder& builder, Region& from, Region& to) {
  IRMapping mapping;
  from.cloneInto(&to, mapping);
  Operation* yield = to.front().getTerminator();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(yield);
  tgpu::YieldOp::create(builder, yield->getLoc(), yield->getOperands());
  yield->erase();
}

// Makes the loop carry each thread's part. The loop still carries the original value, but does not
// change it. After the loop, the parts are reduced and combined with that value.
scf::ForOp defer(IRRewriter& rewriter, scf::ForOp loop, CarriedReduction found) {
  tile::ReduceOp reduce = found.reduce;
  const int axis = static_cast<int>(reduce.getAxis());
  auto source = cast<RankedTensorType>(reduce.getSources()[0].getType());
  const LinearLayout layout = perThreadLayout(layoutOf(source), axis);
  const RankedTensorType type =
      withLayout(RankedTensorType::get(layout.shape(), source.getElementType()), layout);
  const Location at = reduce.getLoc();

  rewriter.setInsertionPoint(loop);
  const Value neutral = arith::ConstantOp::create(
      rewriter, at, DenseElementsAttr::get(cast<ShapedType>(type), Attribute(found.neutral)));
  const auto yields = [&](OpBuilder& builder, Location, ArrayRef<BlockArgument> added) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(found.combine);
    auto own = tgpu::ReduceInThreadOp::create(builder, at, TypeRange{type}, reduce.getKind(),
                                              reduce.getSources(), axis);
    takeCombiner(builder, reduce.getCombiner(), own.getCombiner());
    return SmallVector<Value>{combined(builder, found.combine, added[0], own.getResults()[0])};
  };
  auto longer =
      cast<scf::ForOp>(*cast<LoopLikeOpInterface>(loop.getOperation())
                            .replaceWithAdditionalYields(rewriter, neutral, false, yields));

  rewriter.setInsertionPointAfter(longer);
  IRMapping mapping;
  mapping.map(reduce.getSources()[0], longer.getResults().back());
  Value total = rewriter.clone(*reduce, mapping)->getResult(0);
  if (found.conversion) {
    mapping.map(found.conversion.getSource(), total);
    total = rewriter.clone(*found.conversion, mapping)->getResult(0);
  }
  const Value before = longer.getInitArgs()[found.index];
  const Value result = combined(rewriter, found.combine, before, total);
  rewriter.replaceAllUsesExcept(longer.getResult(found.index), result, {});
  longer.getBody()->getTerminator()->setOperand(found.index, longer.getRegionIterArg(found.index));
  rewriter.eraseOp(found.combine);
  if (found.conversion) rewriter.eraseOp(found.conversion);
  rewriter.eraseOp(reduce);
  return longer;
}

int64_t elementsOf(Value value) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  return tile ? tile.getNumElements() : 1;
}

// Emits a remark on each reduction that crosses warps in every iteration and feeds a carried value
// no larger than its result.
void remarkMeetings(scf::ForOp loop) {
  SetVector<Operation*> meetings;
  for (Value carried : loop.getYieldedValues()) {
    SetVector<Operation*> seen;
    SmallVector<Value> taken{carried};
    while (!taken.empty()) {
      Operation* op = taken.pop_back_val().getDefiningOp();
      if (!op || op->getBlock() != loop.getBody() || !seen.insert(op)) continue;
      if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && crossesWarps(reduce)) {
        if (elementsOf(carried) <= elementsOf(reduce.getResult(0))) meetings.insert(op);
        continue;
      }
      llvm::append_range(taken, op->getOperands());
    }
  }
  for (Operation* reduce : meetings)
    missed(reduce, RemarkId::barrier_in_each_iteration)
        << "this reduction synchronises the threads of the CTA in every iteration; to move it "
           "after the loop, use its result only to update a carried value by the reduction's own "
           "operation (total = total + sum(tile)), and read that value nowhere else in the loop; "
           "or carry a tile of one value per lane and reduce that after the loop (OnlineSums, for "
           "sums of exponentials)";
}

class TgpuDeferReductionsPass : public impl::TgpuDeferReductionsPassBase<TgpuDeferReductionsPass> {
 public:
  using TgpuDeferReductionsPassBase::TgpuDeferReductionsPassBase;

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    IRRewriter rewriter(&getContext());
    for (scf::ForOp loop : loops) {
      const unsigned carried = loop.getNumRegionIterArgs();
      for (unsigned index = 0; index < carried; ++index)
        if (auto found = match(loop, index)) loop = defer(rewriter, loop, *found);
      remarkMeetings(loop);
    }
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
