// What a thread has of a tile, by place.
#pragma once

#include "compiler/dialect/layout_attr.h"
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

/// Two neighbours of 16 bits as one register, the first in the low half.
inline mlir::Value pairOf(ThreadLowering& t, mlir::Value first, mlir::Value second) {
  return mlir::LLVM::BitcastOp::create(t.b, t.loc, t.b.getI32Type(), t.pack({first, second}));
}

/// A fragment of [16, 16] of a product's first factor, as mma.sync and wgmma take it.
inline llvm::SmallVector<mlir::Value> fragmentOf(ThreadLowering& t, const Held& a, int64_t m, int64_t k) {
  llvm::SmallVector<mlir::Value> pairs;
  for (int64_t column : {0, 8})
    for (int64_t row : {0, 8}) pairs.push_back(pairOf(t, a.at(m + row, k + column), a.at(m + row, k + column + 1)));
  return pairs;
}

}  // namespace ligerdsl::compiler::nvptx
