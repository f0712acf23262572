// Conversions: narrowing floats two elements an instruction, and values that optimisers shall not recognise.
#include "compiler/target/nvptx/thread_lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// cvt.rn.{bf16x2,f16x2}.f32 makes a register of two elements. LLVM finds the pair only if the halves are used together,
// so it is spelled out here.
Value narrowPair(ThreadLowering& t, Value low, Value high, Type element) {
  auto type = VectorType::get(2, element);
  StringRef name = element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
  return LLVM::CallIntrinsicOp::create(t.b, t.loc, type, t.b.getStringAttr(name), ValueRange{high, low}).getResult(0);
}

LogicalResult lowerTruncF(ThreadLowering& t, arith::TruncFOp op) {
  Type element = t.elementType(op.getType()), from = t.elementType(op.getIn().getType());
  bool packs = from.isF32() && (element.isBF16() || element.isF16());
  SmallVector<Value> wide = t.elements(op.getIn()), narrow;
  for (size_t i = 0; i < wide.size();) {
    if (packs && i + 1 < wide.size()) {
      Value pair = narrowPair(t, wide[i], wide[i + 1], element);
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

// Register words of the tile, exclusive-or zero.
LogicalResult lowerOpaque(ThreadLowering& t, tgpu::OpaqueOp op) {
  Pieces hidden;
  for (Value piece : Pieces(t.pieces(op.getSource()))) {
    auto vector = dyn_cast<VectorType>(piece.getType());
    int64_t bits = (vector ? vector.getNumElements() : 1) * t.elementType(op.getType()).getIntOrFloatBitWidth();
    if (bits % 32 != 0) {
      hidden.push_back(piece);
      continue;
    }
    int64_t words = bits / 32;
    Value raw = t.bitcast(piece, words == 1 ? t.b.getI32Type() : Type(VectorType::get(words, t.b.getI32Type())));
    SmallVector<Value> mixed;
    for (int64_t word = 0; word < words; ++word)
      mixed.push_back(arith::XOrIOp::create(t.b, t.loc, t.extract(raw, word), t.opaqueZero()));
    hidden.push_back(t.bitcast(t.pack(mixed), piece.getType()));
  }
  t.define(op.getResult(), std::move(hidden));
  return success();
}

}  // namespace

void addCastLowerings(LoweringTable& table) {
  table.add<tgpu::OpaqueOp, lowerOpaque>();
  table.add<arith::TruncFOp, lowerTruncF>();
}

}  // namespace ligerdsl::compiler::nvptx
