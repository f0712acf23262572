// Which elementwise ops belong to a product of which both words of 64 bits are wanted.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler::nvptx {

/// Elementwise ops that tiles of i64 connect are one group; each group is walked once.
class WideProducts {
 public:
  /// Whether the group of an elementwise op has a product and a shift: the high word of a product.
  bool contains(mlir::Operation* op);
  /// Ops walked so far.
  size_t walked() const { return known.size(); }

 private:
  llvm::DenseMap<mlir::Operation*, bool> known;
};

}  // namespace ligerdsl::compiler::nvptx
