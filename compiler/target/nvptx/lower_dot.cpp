// Lowers tile.dot to mma.sync if the operands have the instruction's fragment layouts
// (dot_layout.h). Otherwise each thread multiplies and adds the rows and columns that it holds.
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/target/nvptx/dot_fragments.h"
#include "compiler/target/nvptx/fp8_codes.h"
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// An mma.sync instruction: `depth` elements along k, and `types` such as ".f32.bf16.bf16.f32".
struct Mma {
  int64_t depth;
  std::string types;
  Type accumulator;
};

Mma mmaOf(ThreadLowering& t, tile::DotOp op) {
  const int64_t depth = mmaK(op.getOperandBytes());
  if (op.isInt8()) return {depth, ".s32.s8.s8.s32", t.b.getI32Type()};
  const std::string type = op.getTf32() ? "tf32" : op.getOperandType().isBF16() ? "bf16" : "f16";
  return {depth, ".f32." + type + "." + type + ".f32", t.b.getF32Type()};
}

void multiplyFragment(ThreadLowering& t, const TileElements& a, const TileElements& b, int64_t m,
                      int64_t n, int64_t k, const Mma& mma, MutableArrayRef<Value> acc) {
  SmallVector<Value> operands = fragmentOf(t, a, m, k);
  llvm::append_range(operands, columnsFragmentOf(t, b, k, n));
  llvm::append_range(operands, acc);
  auto four = LLVM::LLVMStructType::getLiteral(
      t.b.getContext(), {mma.accumulator, mma.accumulator, mma.accumulator, mma.accumulator});
  const bool integer = mma.accumulator.isInteger();
  Value result =
      inlinePtx(t, four, operands,
                "mma.sync.aligned.m16n8k" + std::to_string(mma.depth) + ".row.col" + mma.types +
                    " {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
                integer ? "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r" : "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f");
  for (auto [i, sum] : llvm::enumerate(acc))
    sum = LLVM::ExtractValueOp::create(t.b, t.loc, result, int64_t(i));
}

void multiplyFragments(ThreadLowering& t, const TileElements& a, const TileElements& b,
                       const LinearLayout& layout, int64_t depth, const Mma& mma,
                       MutableArrayRef<Value> acc) {
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
    if (at[0] % kMmaM != 0 || at[1] % kMmaN != 0) continue;
    SmallVector<int64_t> places;
    for (int64_t row : {0, 8})
      for (int64_t column : {0, 1})
        places.push_back(*layout.registerAt({at[0] + row, at[1] + column}));
    SmallVector<Value> four =
        llvm::map_to_vector(places, [&](int64_t place) { return acc[place]; });
    for (int64_t k = 0; k < depth; k += mma.depth)
      multiplyFragment(t, a, b, at[0], at[1], k, mma, four);
    for (auto [place, sum] : llvm::zip_equal(places, four)) acc[place] = sum;
  }
}

// Returns sum + left * right, in the type of `sum`.
Value addProduct(ThreadLowering& t, Value left, Value right, Value sum) {
  Type type = sum.getType();
  const auto widened = [&](Value number) -> Value {
    if (number.getType() == type) return number;
    if (type.isInteger()) return arith::ExtSIOp::create(t.b, t.loc, type, number);
    return arith::ExtFOp::create(t.b, t.loc, type, number);
  };
  if (!type.isInteger()) return math::FmaOp::create(t.b, t.loc, widened(left), widened(right), sum);
  return arith::AddIOp::create(t.b, t.loc, sum,
                               arith::MulIOp::create(t.b, t.loc, widened(left), widened(right)));
}

void multiplyInThreads(ThreadLowering& t, const TileElements& a, const TileElements& b,
                       const LinearLayout& layout, int64_t depth, MutableArrayRef<Value> acc) {
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t reg = 0; reg < layout.registers(); ++reg) {
      const LinearLayout::Coordinates at = layout.coordinates({reg, 0, 0, 0});
      acc[reg] = addProduct(t, a.at(at[0], k), b.at(k, at[1]), acc[reg]);
    }
}

// Rounds an f32 to the nearest tf32, ties away from zero. The result has the format of an f32.
Value roundedToTf32(ThreadLowering& t, Value number) {
  Value bits =
      LLVM::CallIntrinsicOp::create(t.b, t.loc, t.b.getI32Type(),
                                    t.b.getStringAttr("llvm.nvvm.f2tf32.rna"), ValueRange(number))
          .getResult(0);
  return t.bitcast(bits, t.b.getF32Type());
}

// Returns an operand's elements, rounded to tf32 if `tf32` is set. fp8 codes become f16, which
// represents every fp8 number.
TileElements operandOf(ThreadLowering& t, Value tile, TypeAttr format, bool tf32) {
  SmallVector<Value> elements = t.elements(tile);
  if (format) elements = decodedFp8(t, elements, format.getValue(), t.b.getF16Type());
  if (tf32)
    for (Value& element : elements) element = roundedToTf32(t, element);
  return {layoutOf(tile), elements};
}

LogicalResult lowerDot(ThreadLowering& t, tile::DotOp op) {
  const TileElements a = operandOf(t, op.getA(), op.getFormatAAttr(), op.getTf32()),
                     b = operandOf(t, op.getB(), op.getFormatBAttr(), op.getTf32());
  const LinearLayout layout = layoutOf(op.getResult());
  SmallVector<Value> acc = t.elements(op.getAcc());
  const int64_t depth = a.layout.shape()[1];
  const std::optional<DotLayouts> fragments =
      mmaLayouts(shapeOf(layout, depth, op.getOperandBytes()));
  if (!op.isIeeeF32() && fragments && a.layout == fragments->a && b.layout == fragments->b)
    multiplyFragments(t, a, b, layout, depth, mmaOf(t, op), acc);
  else
    multiplyInThreads(t, a, b, layout, depth, acc);
  t.defineElements(op, acc);
  return success();
}

}  // namespace

void addDotLowerings(LoweringTable& table) {
  table.add<tile::DotOp, lowerDot>();
}

}  // namespace ligerdsl::compiler::nvptx
