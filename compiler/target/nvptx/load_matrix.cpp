#include "compiler/target/nvptx/load_matrix.h"

#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/matrix_read.h"
#include "compiler/layout/swizzle.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Rows as units of 16 bytes.
constexpr int kUnitBits = 8 * Swizzle::kUnit;

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
  Type result = read.matrices == 1
                    ? word
                    : LLVM::LLVMStructType::getLiteral(t.b.getContext(), SmallVector<Type>(read.matrices, word));
  Value loaded = inlinePtx(t, result, {sharedAddress(t, pointer)}, text, constraints + "r,~{memory}");
  if (read.matrices == 1) return {loaded};
  SmallVector<Value> words;
  for (int64_t i = 0; i < read.matrices; ++i) words.push_back(LLVM::ExtractValueOp::create(t.b, t.loc, loaded, i));
  return words;
}

}  // namespace

std::optional<SmallVector<Value>> loadMatrices(ThreadLowering& t, tgpu::MemDescType type, Value buffer,
                                               RankedTensorType tile, ArrayRef<int64_t> begin) {
  if (tile.getElementTypeBitWidth() != 16 || type.getRowPad() || type.getShape().size() != 2) return std::nullopt;
  const std::optional<MatrixRead> read = matrixRead(layoutOf(tile));
  if (!read) return std::nullopt;
  const auto inUnits = [&](ArrayRef<int64_t> dims) {
    return SmallVector<int64_t>{dims[0], dims[1] * type.getElementType().getIntOrFloatBitWidth() / kUnitBits};
  };
  Type unit = t.b.getIntegerType(kUnitBits);
  auto rows = withLayout(RankedTensorType::get(inUnits(tile.getShape()), unit), read->rows);
  auto memory = tgpu::MemDescType::get(type.getContext(), inUnits(type.getShape()), unit, 0, type.getSwizzle());
  BufferAccess access(t, memory, buffer, rows, begin.empty() ? SmallVector<int64_t>{0, 0} : inUnits(begin));
  auto pair = VectorType::get(2, t.elementType(tile));
  SmallVector<Value> elements;
  for (int64_t reg = 0; reg < access.layout.registers(); ++reg)
    for (Value word : loadOnce(t, *read, access.pointer(reg)))
      for (int64_t half : {0, 1}) elements.push_back(t.extract(t.bitcast(word, pair), half));
  return elements;
}

}  // namespace ligerdsl::compiler::nvptx
