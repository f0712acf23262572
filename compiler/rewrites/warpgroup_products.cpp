#include "compiler/rewrites/warpgroup_products.h"

#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/dot_layout.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// A factor that is read from a swizzled slot.
struct FactorRead {
  tgpu::RingReadOp read;  // null: in registers
  tile::PermuteOp permute;

  explicit FactorRead(Value factor) : permute(factor.getDefiningOp<tile::PermuteOp>()) {
    read = (permute ? permute.getSource() : factor).getDefiningOp<tgpu::RingReadOp>();
    if (read && !read.getRing().getType().part(read.getPart()).getSwizzle()) read = {};
  }
  void eraseUnused() {
    if (!read) return;
    if (permute && permute.use_empty()) permute.erase();
    if (read.use_empty()) read.erase();
  }
};

// A first factor of another ring, which all turns share, stays a value: its lowering finds where that waits.
Value startProduct(OpBuilder& builder, tile::DotOp dot) {
  FactorRead a(dot.getA()), b(dot.getB());
  if (a.read && a.read.getRing() != b.read.getRing()) a.read = {};
  const auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
  return tgpu::WgmmaOp::create(builder, dot.getLoc(), dot.getType(), dot.getSums(), a.read ? Value() : dot.getA(),
                               b.read.getRing(), b.read.getSlot(), a.read ? a.read.getPartAttr() : IntegerAttr(),
                               flag(a.read && a.permute), b.read.getPartAttr(), flag(static_cast<bool>(b.permute)),
                               dot.getFormatAAttr(), dot.getFormatBAttr());
}

Value waited(OpBuilder& builder, Location loc, Value sums, int64_t pending) {
  return tgpu::WgmmaWaitOp::create(builder, loc, sums.getType(), sums, builder.getI32IntegerAttr(pending));
}

// Numbers of 8 and 32 bits are read from slots alone, with k along their rows.
bool readsRows(tile::DotOp dot, llvm::function_ref<bool(Value)> inSlot) {
  const auto permuted = [](Value factor) { return static_cast<bool>(factor.getDefiningOp<tile::PermuteOp>()); };
  const auto a = cast<RankedTensorType>(dot.getA().getType());
  const int64_t bytes = a.getDimSize(1) * a.getElementTypeBitWidth() / 8;
  return bytes % kMmaBytes == 0 && inSlot(dot.getA()) && !permuted(dot.getA()) && permuted(dot.getB());
}

}  // namespace

bool isDealtToGroups(tile::DotOp dot) {
  const RankedTensorType a = cast<RankedTensorType>(dot.getA().getType());
  const LinearLayout sums = layoutOf(dot.getResult());
  const DotShape shape{sums.shape()[0], sums.shape()[1], a.getDimSize(1),     sums.warps(),
                       sums.ctas(),     WarpPart::group, dot.getFactorBytes()};
  return !dot.isIeeeF32() && fitsWgmma(shape) && mmaLayouts(shape)->sums == sums && mmaLayouts(shape)->a == layoutOf(a);
}

WarpgroupProducts::WarpgroupProducts(scf::ForOp loop, llvm::function_ref<bool(Value)> inSlot, bool roundsF32) {
  for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
    if (!isDealtToGroups(dot) || !inSlot(dot.getB()) || (dot.getTf32() && !roundsF32)) continue;
    if (dot.takesRowsOnly() && !readsRows(dot, inSlot)) continue;
    products.push_back(dot);
    readsRegisters |= !inSlot(dot.getA());
  }
}

// The chain of products that adds to what the loop carries begins with it and ends in what the loop carries on.
bool WarpgroupProducts::onlyAddsUp(tile::DotOp dot) const {
  auto loop = cast<scf::ForOp>(dot->getParentOp());
  const auto among = [&](tile::DotOp other) { return other && llvm::is_contained(products, other); };
  Value sums = dot.getSums(), result = dot.getResult();
  if (!result.hasOneUse() || !sums.hasOneUse()) return false;
  while (auto before = sums.getDefiningOp<tile::DotOp>()) {
    if (!among(before)) return false;
    sums = before.getSums();
  }
  while (auto after = dyn_cast<tile::DotOp>(*result.user_begin())) {
    if (!among(after) || after.getSums() != result) return false;
    result = after.getResult();
    if (!result.hasOneUse()) return false;
  }
  OpOperand& carried = *result.use_begin();
  return carried.getOwner() == loop.getBody()->getTerminator() &&
         loop.getRegionIterArgs()[carried.getOperandNumber()] == sums;
}

bool WarpgroupProducts::mayOverlap() const {
  return !products.empty() && !readsRegisters &&
         llvm::all_of(products, [&](tile::DotOp dot) { return onlyAddsUp(dot); });
}

// In the body, the first op that reads the sums, or has one in a region that does; or that makes the next turn's rows, which are to
// lie where those of this one are read until the product is over.
Operation* WarpgroupProducts::firstReader(tgpu::WgmmaOp product) const {
  Block* body = product->getBlock();
  Operation* first = body->getTerminator();
  const auto consider = [&](Operation* op) {
    op = body->findAncestorOpInBlock(*op);
    if (op && op->isBeforeInBlock(first) && product->isBeforeInBlock(op)) first = op;
  };
  llvm::for_each(product.getResult().getUsers(), consider);
  const auto unconverted = [](Value value) {
    while (auto conversion = value ? value.getDefiningOp<tgpu::ConvertLayoutOp>() : nullptr)
      value = conversion.getSource();
    return value;
  };
  auto rows = dyn_cast_or_null<BlockArgument>(unconverted(product.getA()));
  if (!rows || rows.getOwner() != body) return first;
  const size_t carried = rows.getArgNumber() - 1;  // behind the counter
  if (Operation* next = unconverted(body->getTerminator()->getOperand(carried)).getDefiningOp()) consider(next);
  return first;
}

// Products end in the order in which they start: those that have started since may stay under way.
void WarpgroupProducts::awaitReaders(ArrayRef<tgpu::WgmmaOp> started) const {
  tgpu::WgmmaOp any = started.front();
  OpBuilder builder(any.getContext());
  for (size_t number = 0; number < started.size(); ++number) {
    tgpu::WgmmaOp product = started[number];
    Operation* reader = firstReader(product);
    const auto since = llvm::count_if(started.drop_front(number + 1),
                                      [&](tgpu::WgmmaOp later) { return later->isBeforeInBlock(reader); });
    builder.setInsertionPoint(reader);
    Value sums = waited(builder, product.getLoc(), product.getResult(), since);
    product.getResult().replaceAllUsesExcept(sums, sums.getDefiningOp());
  }
}

void WarpgroupProducts::replace(scf::ForOp loop, bool overlap) {
  IRRewriter rewriter(loop.getContext());
  Operation* yield = loop.getBody()->getTerminator();
  SmallVector<tgpu::WgmmaOp> started;
  for (tile::DotOp dot : products) {
    FactorRead factors[] = {FactorRead(dot.getA()), FactorRead(dot.getB())};
    rewriter.setInsertionPoint(dot);
    Value result = startProduct(rewriter, dot);
    started.push_back(result.getDefiningOp<tgpu::WgmmaOp>());
    rewriter.replaceOp(dot, result);
    for (FactorRead& factor : factors) factor.eraseUnused();
  }
  if (started.empty()) return;
  if (!overlap) return awaitReaders(started);
  Value last = started.back();
  for (OpOperand& carried : yield->getOpOperands()) {
    auto product = carried.get().getDefiningOp<tgpu::WgmmaOp>();
    if (!product) continue;
    rewriter.setInsertionPointAfter(last.getDefiningOp());
    last = waited(rewriter, product.getLoc(), product, products.size());
    carried.set(last);
    rewriter.setInsertionPointAfter(loop);
    Value result = loop.getResult(carried.getOperandNumber());
    Value sums = waited(rewriter, product.getLoc(), result, 0);
    result.replaceAllUsesExcept(sums, sums.getDefiningOp());
  }
}

}  // namespace ligerdsl::compiler
