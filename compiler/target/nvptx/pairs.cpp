#include "compiler/target/nvptx/pairs.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

Value existingPair(ThreadLowering& t, Value low, Value high) {
  auto a = low.getDefiningOp<LLVM::ExtractElementOp>(),
       c = high.getDefiningOp<LLVM::ExtractElementOp>();
  APInt first, second;
  if (!a || !c || a.getVector() != c.getVector() ||
      !matchPattern(a.getPosition(), m_ConstantInt(&first)) ||
      !matchPattern(c.getPosition(), m_ConstantInt(&second)) || first[0] || second != first + 1)
    return {};
  auto type = cast<VectorType>(a.getVector().getType());
  if (type.getNumElements() == 2) return a.getVector();
  if (type.getNumElements() % 2) return {};
  Type pair = t.b.getIntegerType(2 * type.getElementTypeBitWidth());
  Value pairs = t.bitcast(a.getVector(), VectorType::get(type.getNumElements() / 2, pair));
  return t.bitcast(t.extract(pairs, first.getZExtValue() / 2),
                   VectorType::get(2, type.getElementType()));
}

Value pairOf(ThreadLowering& t, Value low, Value high) {
  Value pair = existingPair(t, low, high);
  return pair ? pair : t.pack({low, high});
}

}  // namespace ligerdsl::compiler::nvptx
