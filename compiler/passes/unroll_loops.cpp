// tile-unroll-loops
//
// A loop from lo to hi by s, with n copies of its body requested (tile.unroll = n), becomes
//
//   1. a loop from lo to mid by n s, with n copies of the body, for iv, iv + s, ... iv + (n - 1) s.
//      Each copy starts from the values that the previous one yields.
//   2. a loop from mid to hi by s for the fewer than n remaining iterations. It is omitted if there
//      are provably none (analysis/divisibility.h). It is not pipelined, because it would end
//      before a pipeline fills.
//
//   mid = lo + n s floor(iterations / n). With span = hi - lo, the first loop has floor((span - (n
//   - 1) s - 1) / (n s)) + 1 iterations if span > (n - 1) s, else none. If span or n s would
//   overflow, mid is lo.
//
// A loop with a constant number of iterations less than n gets one copy per iteration.
//
// LLVM unrolls neither loop (tile.unroll = 1). A loop whose copies would be too large stays, with a
// remark.
#include "compiler/analysis/divisibility.h"
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEUNROLLLOOPSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr int64_t kMostCopiedOps = 16 * 1024;  // limit of ops in all copies together

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number))) return std::nullopt;
  return number.getSExtValue();
}

std::optional<uint64_t> iterationsOf(scf::ForOp loop) {
  auto lo = constantOf(loop.getLowerBound()), hi = constantOf(loop.getUpperBound()),
       step = constantOf(loop.getStep());
  if (!lo || !hi || !step || *step <= 0) return std::nullopt;
  const uint64_t span = static_cast<uint64_t>(*hi) - static_cast<uint64_t>(*lo);
  return *hi > *lo ? (span - 1) / static_cast<uint64_t>(*step) + 1 : 0;
}

class Unroller {
 public:
  Unroller(scf::ForOp loop, int64_t copies)
      : loop(loop),
        copies(copies),
        builder(loop),
        loc(loop.getLoc()),
        type(loop.getInductionVar().getType()) {}

  void run() {
    if (std::optional<uint64_t> iterations = iterationsOf(loop))
      copies = std::max<uint64_t>(1, std::min<uint64_t>(copies, *iterations));
    int64_t ops = 0;
    loop.getBody()->walk([&](Operation*) { ++ops; });
    if (ops > kMostCopiedOps / copies) {
      missed(loop, RemarkId::unrolled_body_too_long)
          << "not unrolled by " << copies << ": the body has " << ops << " operations, so "
          << copies << " copies exceed the limit of " << kMostCopiedOps
          << " in total; unroll less, or use a shorter body";
      return;
    }
    if (auto step = constantOf(loop.getStep()); step && *step > most() / copies) {
      missed(loop, RemarkId::unrolled_step_too_large)
          << "not unrolled by " << copies << ": the unrolled step, " << copies << " times " << *step
          << ", overflows the i" << type.getIntOrFloatBitWidth() << " counter";
      return;
    }
    const Bounds bounds = findBounds();
    scf::ForOp unrolled = makeUnrolledLoop(bounds);
    if (bounds.isWhole) {
      loop.replaceAllUsesWith(unrolled.getResults());
      loop.erase();
      return;
    }
    loop.getLowerBoundMutable().assign(bounds.mid);
    loop.getInitArgsMutable().assign(unrolled.getResults());
    loop->setAttr(tile::kNumStagesAttr, builder.getI64IntegerAttr(1));
    loop->setAttr(tile::kUnrollAttr, builder.getI64IntegerAttr(1));
  }

 private:
  struct Bounds {
    Value mid, unrolledStep;  // end of the first loop, and n s
    bool isWhole = false;
  };

  int64_t most() const {
    return APInt::getSignedMaxValue(type.getIntOrFloatBitWidth()).getSExtValue();
  }
  Value number(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  }
  Value both(Value a, Value b) { return builder.createOrFold<arith::AndIOp>(loc, a, b); }
  Value add(Value a, Value b) { return builder.createOrFold<arith::AddIOp>(loc, a, b); }
  Value sub(Value a, Value b) { return builder.createOrFold<arith::SubIOp>(loc, a, b); }
  Value mul(Value a, Value b) { return builder.createOrFold<arith::MulIOp>(loc, a, b); }
  Value select(Value condition, Value a, Value b) {
    return builder.createOrFold<arith::SelectOp>(loc, condition, a, b);
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return builder.createOrFold<arith::CmpIOp>(loc, predicate, a, b);
  }

  Bounds findBounds() {
    Value lo = loop.getLowerBound(), hi = loop.getUpperBound(), step = loop.getStep();
    const std::optional<int64_t> known = constantOf(step);
    Bounds bounds;
    bounds.unrolledStep = mul(step, number(copies));
    if (known && isMultiple(hi, *known * copies) && isMultiple(lo, *known * copies)) {
      bounds.mid = hi;
      bounds.isWhole = true;
      return bounds;
    }
    Value span = sub(hi, lo), last = mul(step, number(copies - 1));
    Value fits = compare(arith::CmpIPredicate::sgt, span, last);
    if (!known) {  // n times a large step may wrap around
      Value isShort = compare(arith::CmpIPredicate::ule, step, number(most() / copies));
      bounds.unrolledStep = select(isShort, bounds.unrolledStep, number(1));
      fits = both(fits, isShort);
    }
    Value rest = sub(sub(span, last), number(1));
    Value iterations =
        add(builder.createOrFold<arith::DivUIOp>(loc, rest, bounds.unrolledStep), number(1));
    bounds.mid = select(fits, add(lo, mul(iterations, bounds.unrolledStep)), lo);
    return bounds;
  }

  scf::ForOp makeUnrolledLoop(const Bounds& bounds) {
    SmallVector<Value> distances;  // offset of each copy from the counter
    for (int64_t i = 1; i < copies; ++i) distances.push_back(mul(loop.getStep(), number(i)));
    auto unrolled = scf::ForOp::create(builder, loc, loop.getLowerBound(), bounds.mid,
                                       bounds.unrolledStep, loop.getInitArgs());
    unrolled->setDiscardableAttrs(llvm::to_vector(loop->getDiscardableAttrs()));
    unrolled->setAttr(tile::kUnrollAttr, builder.getI64IntegerAttr(1));
    if (unrolled.getBody()->mightHaveTerminator()) unrolled.getBody()->getTerminator()->erase();
    OpBuilder inside = OpBuilder::atBlockEnd(unrolled.getBody());
    SmallVector<Value> carried(unrolled.getRegionIterArgs());
    for (int64_t i = 0; i < copies; ++i) {
      IRMapping mapping;
      Value counter = unrolled.getInductionVar();
      mapping.map(
          loop.getInductionVar(),
          i ? Value(arith::AddIOp::create(inside, loc, counter, distances[i - 1])) : counter);
      mapping.map(loop.getRegionIterArgs(), carried);
      for (Operation& op : loop.getBody()->without_terminator()) inside.clone(op, mapping);
      carried = llvm::map_to_vector(loop.getBody()->getTerminator()->getOperands(),
                                    [&](Value value) { return mapping.lookupOrDefault(value); });
    }
    scf::YieldOp::create(inside, loc, carried);
    return unrolled;
  }

  scf::ForOp loop;
  int64_t copies;
  OpBuilder builder;
  Location loc;
  Type type;
};

class TileUnrollLoopsPass : public impl::TileUnrollLoopsPassBase<TileUnrollLoopsPass> {
 public:
  using TileUnrollLoopsPassBase::TileUnrollLoopsPassBase;

  void runOnOperation() override {
    SmallVector<std::pair<scf::ForOp, int64_t>> asked;  // inner loops first
    getOperation().walk([&](scf::ForOp loop) {
      auto copies = loop->getAttrOfType<IntegerAttr>(tile::kUnrollAttr);
      if (copies && copies.getInt() > 1) asked.emplace_back(loop, copies.getInt());
    });
    for (auto [loop, copies] : asked) Unroller(loop, copies).run();
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
