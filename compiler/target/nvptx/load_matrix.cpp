#include "compiler/target/nvptx/load_matrix.h"

#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/matrix_read.h"
#include "compiler/layout/swizzle.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Addresses are computed for units of 16 bytes: one row of an 8 x 8 matrix of ldmatrix.
constexpr int kUnitBits = 8 * Swizzle::kUnit;
constexpr int64_t kWordBits = 32;

SmallVector<Value> loadOnce(ThreadLowering& t, const MatrixRead& read, Value pointer) {
  Type word = t.b.getI32Type();
  std::string text = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(read.matrices) +
                     (read.transposed ? ".trans" : "") + ".shared.b16 {",
              constraints;
  for (int64_t i = 0; i < read.matrices; ++i) {
    text += (i ? ", $" : "$") + std::to_string(i);
    constraints += "=r,";
  }
  text += "}, [$" + std::to_string(read.matrices) + "];";
  Type result = read.matrices == 1 ? word
                                   : LLVM::LLVMStructType::getLiteral(
                                         t.b.getContext(), SmallVector<Type>(read.matrices, word));
  Value loaded =
      inlinePtx(t, result, {sharedAddress(t, pointer)}, text, constraints + "r,~{memory}");
  if (read.matrices == 1) return {loaded};
  SmallVector<Value> words;
  for (int64_t i = 0; i < read.matrices; ++i)
    words.push_back(LLVM::ExtractValueOp::create(t.b, t.loc, loaded, i));
  return words;
}

// Returns the elements in a 32-bit register, the lowest first.
SmallVector<Value> elementsOf(ThreadLowering& t, Value word, Type element, int64_t count) {
  if (count == 1) return {t.bitcast(word, element)};
  SmallVector<Value> elements;
  Value all = t.bitcast(word, VectorType::get(count, element));
  for (int64_t i = 0; i < count; ++i) elements.push_back(t.extract(all, i));
  return elements;
}

}  // namespace

std::optional<SmallVector<Value>> loadMatrices(ThreadLowering& t, tgpu::MemDescType type,
                                               Value buffer, RankedTensorType tile,
                                               ArrayRef<int64_t> begin) {
  if (type.getRowPad() || type.getShape().size() != 2 || !tile.getElementType().isIntOrFloat())
    return std::nullopt;
  const int64_t bits = tile.getElementTypeBitWidth();
  // Elements of 8 and 32 bits are loaded this way only from swizzled buffers, which hold matmul
  // operands.
  if (bits != 16 && (!type.getSwizzle() || (bits != 8 && bits != 32))) return std::nullopt;
  const std::optional<MatrixRead> read = matrixRead(layoutOf(tile), bits / 8);
  if (!read) return std::nullopt;
  const auto inUnits = [&](ArrayRef<int64_t> dims) {
    return SmallVector<int64_t>{
        dims[0], dims[1] * type.getElementType().getIntOrFloatBitWidth() / kUnitBits};
  };
  Type unit = t.b.getIntegerType(kUnitBits);
  auto rows = withLayout(RankedTensorType::get(inUnits(tile.getShape()), unit), read->rows);
  auto memory = tgpu::MemDescType::get(type.getContext(), inUnits(type.getShape()), unit, 0,
                                       type.getSwizzle());
  BufferAccess access(t, memory, buffer, rows,
                      begin.empty() ? SmallVector<int64_t>{0, 0} : inUnits(begin));
  const int64_t each = kWordBits / bits;
  SmallVector<Value> elements;
  for (int64_t reg = 0; reg < access.layout.registers(); ++reg)
    for (Value word : loadOnce(t, *read, access.pointer(reg)))
      llvm::append_range(elements, elementsOf(t, word, t.elementType(tile), each));
  return elements;
}

}  // namespace ligerdsl::compiler::nvptx
