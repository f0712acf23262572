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
                               flag(a.read && a.permute), b.read.getPartAttr(), flag(static_cast<bool>(b.permute)));
}

Value waited(OpBuilder& builder, Location loc, Value sums, int64_t pending) {
  return tgpu::WgmmaWaitOp::create(builder, loc, sums.getType(), sums, builder.getI32IntegerAttr(pending));
}

}  // namespace

bool isDealtToGroups(tile::DotOp dot) {
  const RankedTensorType a = cast<RankedTensorType>(dot.getA().getType());
  const LinearLayout sums = layoutOf(dot.getResult());
  const DotShape shape{sums.shape()[0], sums.shape()[1], a.getDimSize(1), sums.warps(), sums.ctas(), WarpPart::group};
  return !a.getElementType().isF32() && fitsWgmma(shape) && mmaLayouts(shape)->sums == sums &&
         mmaLayouts(shape)->a == layoutOf(a);
}

WarpgroupProducts::WarpgroupProducts(scf::ForOp loop, llvm::function_ref<bool(Value)> inSlot) {
  for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
    if (!isDealtToGroups(dot) || !inSlot(dot.getB())) continue;
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

void WarpgroupProducts::replace(scf::ForOp loop, bool overlap) {
  IRRewriter rewriter(loop.getContext());
  Operation* yield = loop.getBody()->getTerminator();
  Value last;
  for (tile::DotOp dot : products) {
    FactorRead factors[] = {FactorRead(dot.getA()), FactorRead(dot.getB())};
    rewriter.setInsertionPoint(dot);
    Value result = last = startProduct(rewriter, dot);
    if (!overlap) result = waited(rewriter, dot.getLoc(), result, 0);
    rewriter.replaceOp(dot, result);
    for (FactorRead& factor : factors) factor.eraseUnused();
  }
  if (!overlap) return;
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
