#include "compiler/target/nvptx/shifted_words.h"

#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

void appendWords(ThreadLowering& t, ArrayRef<Value> elements, SmallVectorImpl<Value>& words) {
  const int64_t bytes = memoryBytes(elements[0].getType()),
                count = static_cast<int64_t>(elements.size()) * bytes / kWordBytes;
  if (count == 1) {
    words.push_back(t.bitcast(t.pack(elements), t.b.getI32Type()));
    return;
  }
  Value packed = t.bitcast(t.pack(elements), VectorType::get(count, t.b.getI32Type()));
  for (int64_t word = 0; word < count; ++word) words.push_back(t.extract(packed, word));
}

void appendElements(ThreadLowering& t, ArrayRef<Value> words, Type element,
                    SmallVectorImpl<Value>& elements) {
  const int64_t count = static_cast<int64_t>(words.size()) * kWordBytes / memoryBytes(element);
  Value packed = t.bitcast(t.pack(words), count == 1 ? element : VectorType::get(count, element));
  for (int64_t i = 0; i < count; ++i) elements.push_back(t.extract(packed, i));
}

SmallVector<Value> shiftWords(ThreadLowering& t, ArrayRef<Value> words, Value bytes,
                              int64_t elementBytes, int64_t largestStep, int64_t count) {
  SmallVector<Value> moved(words);
  for (int64_t step = largestStep; step >= 1; step /= 2) {
    Value bit = arith::AndIOp::create(t.b, t.loc, bytes, t.constant(kWordBytes * step));
    Value moves = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, bit, t.constant(0));
    for (size_t i = 0; i + step < moved.size(); ++i)
      moved[i] = arith::SelectOp::create(t.b, t.loc, moves, moved[i + step], moved[i]);
  }
  if (elementBytes < kWordBytes) {
    Value inWord = arith::AndIOp::create(t.b, t.loc, bytes, t.constant(kWordBytes - 1));
    Value bits = arith::MulIOp::create(t.b, t.loc, inWord, t.constant(8));
    for (int64_t i = 0; i < count; ++i)
      moved[i] = LLVM::FshrOp::create(t.b, t.loc, t.b.getI32Type(), moved[i + 1], moved[i], bits);
  }
  moved.truncate(count);
  return moved;
}

}  // namespace ligerdsl::compiler::nvptx
