// Casts from and to fp8. Tiles of fp8 hold codes. GPUs with conversion instructions convert two
// elements at a time; others convert each element by integer arithmetic.
#include "compiler/math/fp8.h"
#include "compiler/target/nvptx/fp8_codes.h"
#include "compiler/target/nvptx/pairs.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

std::string pairName(Type format) {
  return isa<Float8E5M2Type>(format) ? "e5m2x2" : "e4m3x2";
}

Value callIntrinsic(ThreadLowering& t, const std::string& name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(t.b, t.loc, result, t.b.getStringAttr("llvm.nvvm." + name),
                                       operands)
      .getResult(0);
}

// Packs elements into vectors of two. An odd last element fills both halves.
SmallVector<Value> pairsOf(ThreadLowering& t, ArrayRef<Value> elements) {
  SmallVector<Value> pairs;
  for (size_t i = 0; i < elements.size(); i += 2)
    pairs.push_back(pairOf(t, elements[i], elements[std::min(i + 1, elements.size() - 1)]));
  return pairs;
}

// Defines a tile of i8 by `pairs`: i16 values of two codes each. Two pairs are joined to a 32-bit
// register first, so that stores need no repacking.
void defineByPairs(ThreadLowering& t, Value tile, ArrayRef<Value> pairs, int64_t elements) {
  SmallVector<Value> codes;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    ArrayRef<Value> two = pairs.slice(i, std::min<size_t>(2, pairs.size() - i));
    const int64_t count = 2 * two.size();
    Value word = t.bitcast(t.pack(two), VectorType::get(count, t.b.getI8Type()));
    for (int64_t code = 0; code < count; ++code) codes.push_back(t.extract(word, code));
  }
  t.defineElements(tile, ArrayRef(codes).take_front(elements));
}

LogicalResult lowerDecode(ThreadLowering& t, tile::Fp8DecodeOp op) {
  t.defineElements(op.getResult(), decodedFp8(t, t.elements(op.getSource()), op.getFormat(),
                                              t.elementType(op.getType())));
  return success();
}

LogicalResult lowerEncode(ThreadLowering& t, tile::Fp8EncodeOp op) {
  Type i16 = t.b.getI16Type(), element = t.elementType(op.getSource().getType());
  const std::string name = "to." + pairName(op.getFormat()) + ".rn";
  SmallVector<Value> codes;
  if (!t.arch().converts_fp8(t.options)) {
    for (Value number : t.elements(op.getSource())) {
      if (element.isF16()) number = arith::ExtFOp::create(t.b, t.loc, t.b.getF32Type(), number);
      codes.push_back(encodeFp8(t.b, t.loc, number, op.getFormat()));
    }
    t.defineElements(op.getResult(), codes);
    return success();
  }
  if (element.isF16()) {
    for (Value pair : pairsOf(t, t.elements(op.getSource())))
      codes.push_back(callIntrinsic(t, "f16x2." + name, i16, pair));
  } else {
    SmallVector<Value> numbers = t.elements(op.getSource());
    for (size_t i = 0; i < numbers.size(); i += 2) {
      Value upper = numbers[std::min(i + 1, numbers.size() - 1)];
      codes.push_back(callIntrinsic(t, "ff." + name, i16, {upper, numbers[i]}));
    }
  }
  defineByPairs(t, op.getResult(), codes, t.elements(op.getSource()).size());
  return success();
}

}  // namespace

SmallVector<Value> decodedFp8(ThreadLowering& t, ArrayRef<Value> codes, Type format, Type element) {
  SmallVector<Value> numbers;
  if (t.arch().converts_fp8(t.options)) {
    Type i16 = t.b.getI16Type(), halves = VectorType::get(2, t.b.getF16Type());
    for (Value pair : pairsOf(t, codes)) {
      Value both =
          callIntrinsic(t, pairName(format) + ".to.f16x2.rn", halves, t.bitcast(pair, i16));
      for (int64_t i : {0, 1}) numbers.push_back(t.extract(both, i));
    }
    numbers.resize(codes.size());
    if (element.isF32())
      for (Value& number : numbers) number = arith::ExtFOp::create(t.b, t.loc, element, number);
  } else {
    for (Value code : codes) {
      numbers.push_back(decodeFp8(t.b, t.loc, code, format));
      if (element.isF16())
        numbers.back() = arith::TruncFOp::create(t.b, t.loc, element, numbers.back());
    }
  }
  return numbers;
}

void addFp8Lowerings(LoweringTable& table) {
  table.add<tile::Fp8DecodeOp, lowerDecode>();
  table.add<tile::Fp8EncodeOp, lowerEncode>();
}

}  // namespace ligerdsl::compiler::nvptx
