// Matrix products: mma.sync where the factors are dealt as its fragments (dot_layout.h), else a thread's own rows by its own
// columns.
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/target/nvptx/fp8_codes.h"
#include "compiler/target/nvptx/held.h"
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void multiplyFragment(ThreadLowering& t, const Held& a, const Held& b, int64_t m, int64_t n, int64_t k, StringRef type,
                      MutableArrayRef<Value> sums) {
  SmallVector<Value> operands = fragmentOf(t, a, m, k);
  for (int64_t row : {0, 8}) operands.push_back(pairOf(t, b.at(k + row, n), b.at(k + row + 1, n)));
  llvm::append_range(operands, sums);
  Type f32 = t.b.getF32Type();
  auto four = LLVM::LLVMStructType::getLiteral(t.b.getContext(), {f32, f32, f32, f32});
  Value result = inlinePtx(t, four, operands,
                           ("mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type +
                            ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};")
                               .str(),
                           "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f");
  for (auto [i, sum] : llvm::enumerate(sums)) sum = LLVM::ExtractValueOp::create(t.b, t.loc, result, int64_t(i));
}

void multiplyFragments(ThreadLowering& t, const Held& a, const Held& b, const LinearLayout& layout, int64_t depth,
                       StringRef type, MutableArrayRef<Value> sums) {
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
    if (at[0] % kMmaM != 0 || at[1] % kMmaN != 0) continue;
    SmallVector<int64_t> places;
    for (int64_t row : {0, 8})
      for (int64_t column : {0, 1}) places.push_back(*layout.registerAt({at[0] + row, at[1] + column}));
    SmallVector<Value> four = llvm::map_to_vector(places, [&](int64_t place) { return sums[place]; });
    for (int64_t k = 0; k < depth; k += kMmaK) multiplyFragment(t, a, b, at[0], at[1], k, type, four);
    for (auto [place, sum] : llvm::zip_equal(places, four)) sums[place] = sum;
  }
}

Value widened(ThreadLowering& t, Value number) {
  return number.getType().isF32() ? number : arith::ExtFOp::create(t.b, t.loc, t.b.getF32Type(), number).getResult();
}

void multiplyInThreads(ThreadLowering& t, const Held& a, const Held& b, const LinearLayout& layout, int64_t depth,
                       MutableArrayRef<Value> sums) {
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t reg = 0; reg < layout.registers(); ++reg) {
      const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
      sums[reg] = math::FmaOp::create(t.b, t.loc, widened(t, a.at(at[0], k)), widened(t, b.at(k, at[1])), sums[reg]);
    }
}

// All numbers of fp8 are numbers of f16.
Held factorOf(ThreadLowering& t, Value tile, TypeAttr format) {
  const SmallVector<Value> elements = t.elements(tile);
  return {layoutOf(tile), format ? decodedFp8(t, elements, format.getValue(), t.b.getF16Type()) : elements};
}

LogicalResult lowerDot(ThreadLowering& t, tile::DotOp op) {
  const Held a = factorOf(t, op.getA(), op.getFormatAAttr()), b = factorOf(t, op.getB(), op.getFormatBAttr());
  const LinearLayout layout = layoutOf(op.getResult());
  SmallVector<Value> sums = t.elements(op.getSums());
  const int64_t depth = a.layout.shape()[1];
  const Type element = getElementTypeOrSelf(op.getA().getType());
  const std::optional<DotLayouts> fragments = mmaLayouts(shapeOf(layout, depth));
  if (!element.isF32() && fragments && a.layout == fragments->a && b.layout == fragments->b)
    multiplyFragments(t, a, b, layout, depth, element.isBF16() ? "bf16" : "f16", sums);
  else
    multiplyInThreads(t, a, b, layout, depth, sums);
  t.defineElements(op, sums);
  return success();
}

}  // namespace

void addDotLowerings(LoweringTable& table) {
  table.add<tile::DotOp, lowerDot>();
}

}  // namespace ligerdsl::compiler::nvptx
