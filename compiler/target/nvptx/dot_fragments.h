// Fragments of matmul operands that one thread holds in registers.
#pragma once

#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// This thread's elements of a tile. `at(row, column)` returns the element in the register in which
/// thread 0 holds (row, column).
class TileElements {
 public:
  TileElements(ThreadLowering& t, mlir::Value tile)
      : TileElements(layoutOf(tile), t.elements(tile)) {}
  TileElements(LinearLayout layout, llvm::SmallVector<mlir::Value> elements)
      : layout(std::move(layout)), elements(std::move(elements)) {}
  mlir::Value at(int64_t row, int64_t column) const {
    return elements[*layout.registerAt({row, column})];
  }

  const LinearLayout layout;
  const llvm::SmallVector<mlir::Value> elements;
};

/// Packs consecutive elements into one 32-bit register, the first in the lowest bits.
inline mlir::Value wordOf(ThreadLowering& t, llvm::ArrayRef<mlir::Value> elements) {
  mlir::Type word = t.b.getI32Type();
  if (elements.size() == 1) return t.bitcast(elements[0], word);
  return mlir::LLVM::BitcastOp::create(t.b, t.loc, word, t.pack(elements));
}

/// Returns the number of elements along k in one 32-bit register of a fragment.
inline int64_t perRegister(const TileElements& operand) {
  return compiler::perRegister(operand.elements[0].getType().getIntOrFloatBitWidth() / 8);
}

/// Returns the fragment of operand A for mma.sync and wgmma: 16 rows from `m`, 32 bytes along k
/// from `k`.
inline llvm::SmallVector<mlir::Value> fragmentOf(ThreadLowering& t, const TileElements& a,
                                                 int64_t m, int64_t k) {
  const int64_t each = perRegister(a);
  llvm::SmallVector<mlir::Value> words;
  for (int64_t begin : {k, k + 4 * each})
    for (int64_t row : {m, m + 8}) {
      llvm::SmallVector<mlir::Value> elements;
      for (int64_t i = 0; i < each; ++i) elements.push_back(a.at(row, begin + i));
      words.push_back(wordOf(t, elements));
    }
  return words;
}

/// Returns the fragment of operand B for mma.sync: 32 bytes along k from `k`, 8 columns from `n`.
inline llvm::SmallVector<mlir::Value> columnsFragmentOf(ThreadLowering& t, const TileElements& b,
                                                        int64_t k, int64_t n) {
  const int64_t each = perRegister(b);
  llvm::SmallVector<mlir::Value> words;
  for (int64_t begin : {k, k + 4 * each}) {
    llvm::SmallVector<mlir::Value> elements;
    for (int64_t i = 0; i < each; ++i) elements.push_back(b.at(begin + i, n));
    words.push_back(wordOf(t, elements));
  }
  return words;
}

}  // namespace ligerdsl::compiler::nvptx
