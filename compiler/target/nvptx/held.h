// What a thread has of a tile, by place.
#pragma once

#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The elements that this thread has of a tile, by where those of the first thread are.
class Held {
 public:
  Held(ThreadLowering& t, mlir::Value tile) : Held(layoutOf(tile), t.elements(tile)) {}
  Held(LinearLayout layout, llvm::SmallVector<mlir::Value> elements)
      : layout(std::move(layout)), elements(std::move(elements)) {}
  mlir::Value at(int64_t row, int64_t column) const { return elements[*layout.registerAt({row, column})]; }

  const LinearLayout layout;
  const llvm::SmallVector<mlir::Value> elements;
};

/// Neighbours that fill a register of 32 bits, the first in its lowest bits.
inline mlir::Value wordOf(ThreadLowering& t, llvm::ArrayRef<mlir::Value> neighbours) {
  mlir::Type word = t.b.getI32Type();
  if (neighbours.size() == 1) return t.bitcast(neighbours[0], word);
  return mlir::LLVM::BitcastOp::create(t.b, t.loc, word, t.pack(neighbours));
}

/// Numbers along k of a register of a fragment.
inline int64_t perRegister(const Held& factor) {
  return compiler::perRegister(factor.elements[0].getType().getIntOrFloatBitWidth() / 8);
}

/// A fragment of 16 rows and 32 bytes along k of a product's first factor, as mma.sync and wgmma take it.
inline llvm::SmallVector<mlir::Value> fragmentOf(ThreadLowering& t, const Held& a, int64_t m, int64_t k) {
  const int64_t each = perRegister(a);
  llvm::SmallVector<mlir::Value> words;
  for (int64_t begin : {k, k + 4 * each})
    for (int64_t row : {m, m + 8}) {
      llvm::SmallVector<mlir::Value> neighbours;
      for (int64_t i = 0; i < each; ++i) neighbours.push_back(a.at(row, begin + i));
      words.push_back(wordOf(t, neighbours));
    }
  return words;
}

/// The same of the second one: 32 bytes along k and 8 columns.
inline llvm::SmallVector<mlir::Value> columnsFragmentOf(ThreadLowering& t, const Held& b, int64_t k, int64_t n) {
  const int64_t each = perRegister(b);
  llvm::SmallVector<mlir::Value> words;
  for (int64_t begin : {k, k + 4 * each}) {
    llvm::SmallVector<mlir::Value> neighbours;
    for (int64_t i = 0; i < each; ++i) neighbours.push_back(b.at(begin + i, n));
    words.push_back(wordOf(t, neighbours));
  }
  return words;
}

}  // namespace ligerdsl::compiler::nvptx
