// Float conversions and tgpu.opaque. Elements are narrowed to 16-bit floats, or widened from bf16,
// two at a time, as one register.
#include "compiler/target/nvptx/memory_access.h"
#include "compiler/target/nvptx/pairs.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Narrows two f32 to one register by cvt.rn.{bf16x2,f16x2}.f32. LLVM forms the pair by itself only
// if both halves are used together.
Value narrowPair(ThreadLowering& t, Value low, Value high, Type element) {
  auto type = VectorType::get(2, element);
  StringRef name = element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
  return LLVM::CallIntrinsicOp::create(t.b, t.loc, type, t.b.getStringAttr(name),
                                       ValueRange{high, low})
      .getResult(0);
}

// A bf16 is the upper half of an f32, so one shift and one mask widen a pair. LLVM would first move
// the halves to separate registers.
void widenBf16Pair(ThreadLowering& t, Value pair, SmallVectorImpl<Value>& wide) {
  Value word = t.bitcast(pair, t.b.getI32Type());
  Value shifted = arith::ShLIOp::create(t.b, t.loc, word, t.constant(16));
  Value masked = arith::AndIOp::create(t.b, t.loc, word, t.constant(-0x10000));
  wide.push_back(t.bitcast(shifted, t.b.getF32Type()));
  wide.push_back(t.bitcast(masked, t.b.getF32Type()));
}

LogicalResult lowerExtF(ThreadLowering& t, arith::ExtFOp op) {
  Type element = t.elementType(op.getType());
  bool bf16 = element.isF32() && t.elementType(op.getIn().getType()).isBF16();
  SmallVector<Value> narrow = t.elements(op.getIn()), wide;
  for (size_t i = 0; i < narrow.size();) {
    Value pair =
        bf16 && i + 1 < narrow.size() ? existingPair(t, narrow[i], narrow[i + 1]) : Value();
    if (pair) {
      widenBf16Pair(t, pair, wide);
      i += 2;
    } else {
      wide.push_back(arith::ExtFOp::create(t.b, t.loc, element, narrow[i++]));
    }
  }
  if (element.isF32())
    for (auto [from, to] : llvm::zip_equal(narrow, wide)) t.noteWidened(to, from);
  t.defineElements(op.getResult(), wide);
  return success();
}

bool multipliesPairs(ThreadLowering& t, Type element) {
  int arch = 0;
  StringRef(t.options.arch).drop_front(3).consumeInteger(10, arch);
  return element.isF16() || (element.isBF16() && arch >= 90);
}

// Returns each element's 16-bit operands if the op is round(a * b) in f32, with a and b widened
// from the result's type. Their f32 product is exact, so a 16-bit multiplication gives the same
// result. Only the last bit of a subnormal bf16 product may differ, because f32 rounds it too.
std::optional<SmallVector<std::pair<Value, Value>>> narrowOperands(ThreadLowering& t,
                                                                   arith::TruncFOp op,
                                                                   Type element) {
  auto product = op.getIn().getDefiningOp<arith::MulFOp>();
  if (!product || !multipliesPairs(t, element)) return std::nullopt;
  SmallVector<std::pair<Value, Value>> operands;
  for (auto [a, c] : llvm::zip_equal(t.elements(product.getLhs()), t.elements(product.getRhs()))) {
    operands.emplace_back(t.narrowOf(a), t.narrowOf(c));
    auto [x, y] = operands.back();
    if (!x || !y || x.getType() != element || y.getType() != element) return std::nullopt;
  }
  return operands;
}

LogicalResult lowerTruncF(ThreadLowering& t, arith::TruncFOp op) {
  Type element = t.elementType(op.getType()), from = t.elementType(op.getIn().getType());
  bool packs = from.isF32() && (element.isBF16() || element.isF16());
  SmallVector<Value> wide = t.elements(op.getIn()), narrow;
  auto operands = wide.size() % 2 ? std::nullopt : narrowOperands(t, op, element);
  for (size_t i = 0; i < wide.size();) {
    if (packs && i + 1 < wide.size()) {
      Value pair = operands
                       ? arith::MulFOp::create(
                             t.b, t.loc, pairOf(t, (*operands)[i].first, (*operands)[i + 1].first),
                             pairOf(t, (*operands)[i].second, (*operands)[i + 1].second))
                             .getResult()
                       : narrowPair(t, wide[i], wide[i + 1], element);
      narrow.push_back(t.extract(pair, 0));
      narrow.push_back(t.extract(pair, 1));
      i += 2;
    } else {
      narrow.push_back(arith::TruncFOp::create(t.b, t.loc, element, wide[i++]));
    }
  }
  t.defineElements(op.getResult(), narrow);
  return success();
}

// Hides each 32-bit word of a tile from the optimisers: by xor with an opaque zero, or, if `copied`
// is set, by a volatile mov. LLVM neither hoists a volatile mov out of a loop nor merges two movs.
LogicalResult lowerOpaque(ThreadLowering& t, tgpu::OpaqueOp op) {
  const auto hide = [&](Value word) -> Value {
    if (op.getCopied()) return inlinePtx(t, word.getType(), word, "mov.b32 $0, $1;", "=r,r");
    return arith::XOrIOp::create(t.b, t.loc, word, t.opaqueZero());
  };
  Pieces hidden;
  for (Value piece : Pieces(t.pieces(op.getSource()))) {
    auto vector = dyn_cast<VectorType>(piece.getType());
    int64_t bits = (vector ? vector.getNumElements() : 1) *
                   t.elementType(op.getType()).getIntOrFloatBitWidth();
    if (bits % 32 != 0) {
      hidden.push_back(piece);
      continue;
    }
    int64_t words = bits / 32;
    Value raw = t.bitcast(
        piece, words == 1 ? t.b.getI32Type() : Type(VectorType::get(words, t.b.getI32Type())));
    SmallVector<Value> mixed;
    for (int64_t word = 0; word < words; ++word) mixed.push_back(hide(t.extract(raw, word)));
    hidden.push_back(t.bitcast(t.pack(mixed), piece.getType()));
  }
  t.define(op.getResult(), std::move(hidden));
  return success();
}

}  // namespace

void addCastLowerings(LoweringTable& table) {
  table.add<tgpu::OpaqueOp, lowerOpaque>();
  table.add<arith::ExtFOp, lowerExtF>();
  table.add<arith::TruncFOp, lowerTruncF>();
}

}  // namespace ligerdsl::compiler::nvptx
