#include "compiler/pipeline/wgmma_dots.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// An operand of a dot, and the read of its ring slot.
struct OperandRead {
  tgpu::RingReadOp read;  // null if the operand is in registers or in an unswizzled slot
  tile::PermuteOp permute;

  explicit OperandRead(Value operand) : permute(operand.getDefiningOp<tile::PermuteOp>()) {
    read = (permute ? permute.getSource() : operand).getDefiningOp<tgpu::RingReadOp>();
    if (read && !read.getRing().getType().part(read.getPart()).getSwizzle()) read = {};
  }
  void eraseUnused() {
    if (!read) return;
    if (permute && permute.use_empty()) permute.erase();
    if (read.use_empty()) read.erase();
  }
};

// A tgpu.wgmma names one ring for both operands. If A is in another ring, whose tile all iterations
// share, it stays an SSA value, and the lowering finds its slot.
Value startWgmma(OpBuilder& builder, tile::DotOp dot) {
  OperandRead a(dot.getA()), b(dot.getB());
  if (a.read && a.read.getRing() != b.read.getRing()) a.read = {};
  const auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
  return tgpu::WgmmaOp::create(
      builder, dot.getLoc(), dot.getType(), dot.getAcc(), a.read ? Value() : dot.getA(),
      b.read.getRing(), b.read.getSlot(), a.read ? a.read.getPartAttr() : IntegerAttr(),
      flag(a.read && a.permute), b.read.getPartAttr(), flag(static_cast<bool>(b.permute)),
      dot.getFormatAAttr(), dot.getFormatBAttr());
}

Value waited(OpBuilder& builder, Location loc, Value acc, int64_t pending) {
  return tgpu::WgmmaWaitOp::create(builder, loc, acc.getType(), acc,
                                   builder.getI32IntegerAttr(pending));
}

}  // namespace

WgmmaDots::WgmmaDots(scf::ForOp loop, const LoopTiles& tiles, bool roundsF32) {
  const auto placeOf = [&](Value operand) { return tiles.placeOf(operand); };
  for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
    if (!hasWgmmaLayouts(dot) || !reasonNotInSlots(dot, placeOf, roundsF32).empty()) continue;
    dots.push_back(dot);
    readsRegisters |= !tiles.placeOf(dot.getA()).inSlot;
  }
}

// Returns true if the dots that share this dot's accumulator only accumulate: their chain starts at
// an accumulator that the loop carries, and the loop yields its result for that accumulator.
bool WgmmaDots::onlyAddsUp(tile::DotOp dot) const {
  auto loop = cast<scf::ForOp>(dot->getParentOp());
  const auto among = [&](tile::DotOp other) { return other && llvm::is_contained(dots, other); };
  Value acc = dot.getAcc(), result = dot.getResult();
  if (!result.hasOneUse() || !acc.hasOneUse()) return false;
  while (auto before = acc.getDefiningOp<tile::DotOp>()) {
    if (!among(before)) return false;
    acc = before.getAcc();
  }
  while (auto after = dyn_cast<tile::DotOp>(*result.user_begin())) {
    if (!among(after) || after.getAcc() != result) return false;
    result = after.getResult();
    if (!result.hasOneUse()) return false;
  }
  OpOperand& carried = *result.use_begin();
  return carried.getOwner() == loop.getBody()->getTerminator() &&
         loop.getRegionIterArgs()[carried.getOperandNumber()] == acc;
}

bool WgmmaDots::mayOverlap() const {
  return !dots.empty() && !readsRegisters &&
         llvm::all_of(dots, [&](tile::DotOp dot) { return onlyAddsUp(dot); });
}

// Returns the first op of the body that must wait for the wgmma. This op, or an op in its regions,
// reads the accumulator. If A is in registers that the loop carries, it can also be the op that
// computes the next A, because wgmma reads these registers until it completes.
Operation* WgmmaDots::firstReader(tgpu::WgmmaOp wgmma) const {
  Block* body = wgmma->getBlock();
  Operation* first = body->getTerminator();
  const auto consider = [&](Operation* op) {
    op = body->findAncestorOpInBlock(*op);
    if (op && op->isBeforeInBlock(first) && wgmma->isBeforeInBlock(op)) first = op;
  };
  llvm::for_each(wgmma.getResult().getUsers(), consider);
  const auto unconverted = [](Value value) {
    while (auto conversion = value ? value.getDefiningOp<tgpu::ConvertLayoutOp>() : nullptr)
      value = conversion.getSource();
    return value;
  };
  auto rows = dyn_cast_or_null<BlockArgument>(unconverted(wgmma.getA()));
  if (!rows || rows.getOwner() != body) return first;
  const size_t carried = rows.getArgNumber() - 1;  // after the induction variable
  if (Operation* next = unconverted(body->getTerminator()->getOperand(carried)).getDefiningOp())
    consider(next);
  return first;
}

// Inserts waits before the first readers. wgmmas complete in the order of their start, so later
// ones may stay in flight.
void WgmmaDots::awaitReaders(ArrayRef<tgpu::WgmmaOp> started) const {
  tgpu::WgmmaOp any = started.front();
  OpBuilder builder(any.getContext());
  for (size_t number = 0; number < started.size(); ++number) {
    tgpu::WgmmaOp wgmma = started[number];
    Operation* reader = firstReader(wgmma);
    const auto since = llvm::count_if(started.drop_front(number + 1), [&](tgpu::WgmmaOp later) {
      return later->isBeforeInBlock(reader);
    });
    builder.setInsertionPoint(reader);
    Value acc = waited(builder, wgmma.getLoc(), wgmma.getResult(), since);
    wgmma.getResult().replaceAllUsesExcept(acc, acc.getDefiningOp());
  }
}

void WgmmaDots::replace(scf::ForOp loop, bool overlap) {
  IRRewriter rewriter(loop.getContext());
  Operation* yield = loop.getBody()->getTerminator();
  SmallVector<tgpu::WgmmaOp> started;
  for (tile::DotOp dot : dots) {
    OperandRead operands[] = {OperandRead(dot.getA()), OperandRead(dot.getB())};
    rewriter.setInsertionPoint(dot);
    Value result = startWgmma(rewriter, dot);
    started.push_back(result.getDefiningOp<tgpu::WgmmaOp>());
    rewriter.replaceOp(dot, result);
    for (OperandRead& operand : operands) operand.eraseUnused();
  }
  if (started.empty()) return;
  if (!overlap) return awaitReaders(started);
  Value last = started.back();
  for (OpOperand& carried : yield->getOpOperands()) {
    auto wgmma = carried.get().getDefiningOp<tgpu::WgmmaOp>();
    if (!wgmma) continue;
    rewriter.setInsertionPointAfter(last.getDefiningOp());
    last = waited(rewriter, wgmma.getLoc(), wgmma, dots.size());
    carried.set(last);
    rewriter.setInsertionPointAfter(loop);
    Value result = loop.getResult(carried.getOperandNumber());
    Value acc = waited(rewriter, wgmma.getLoc(), result, 0);
    result.replaceAllUsesExcept(acc, acc.getDefiningOp());
  }
}

}  // namespace ligerdsl::compiler
