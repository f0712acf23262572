#include "compiler/target/nvptx/shuffle.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

constexpr int64_t kLastLane = 31;

// Emits shfl.sync (PTX ISA) with `segments` as its operand c. Bits 0-4 of `segments` bound the
// source lane. Bits 8-12 mask the bits that source and reading lane share.
Value shuffleWord(ThreadLowering& t, Value word, int64_t lane, int64_t segments,
                  NVVM::ShflKind kind) {
  return NVVM::ShflOp::create(t.b, t.loc, word.getType(), t.constant(-1), word, t.constant(lane),
                              t.constant(segments), kind, UnitAttr());
}

// Shuffles a scalar of any type, by words. A constant has one value in all lanes and needs no
// shuffle.
Value shuffle(ThreadLowering& t, Value value, int64_t lane, int64_t segments, NVVM::ShflKind kind) {
  if (matchPattern(value, m_Constant())) return value;
  Type type = value.getType(), i32 = t.b.getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  if (type.isF32() || type == i32) return shuffleWord(t, value, lane, segments, kind);
  if (bits == 64) {
    Value pair = t.bitcast(value, VectorType::get(2, i32));
    Value halves[] = {shuffleWord(t, t.extract(pair, 0), lane, segments, kind),
                      shuffleWord(t, t.extract(pair, 1), lane, segments, kind)};
    return t.bitcast(t.pack(halves), type);
  }
  Value word = arith::ExtUIOp::create(t.b, t.loc, i32, t.bitcast(value, t.b.getIntegerType(bits)));
  Value moved = arith::TruncIOp::create(t.b, t.loc, t.b.getIntegerType(bits),
                                        shuffleWord(t, word, lane, segments, kind));
  return t.bitcast(moved, type);
}

}  // namespace

Value shuffle(ThreadLowering& t, Value value, int64_t offset, NVVM::ShflKind kind) {
  return shuffle(t, value, offset, kind == NVVM::ShflKind::up ? 0 : kLastLane, kind);
}

Value fromFirstOf(ThreadLowering& t, Value value, uint64_t lanes) {
  const int64_t kept = kLastLane & ~static_cast<int64_t>(lanes);
  return shuffle(t, value, 0, kept << 8 | kLastLane, NVVM::ShflKind::idx);
}

}  // namespace ligerdsl::compiler::nvptx
