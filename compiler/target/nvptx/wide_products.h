// Finds elementwise ops that compute the high word of a 64-bit product. They are lowered by
// element.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler::nvptx {

/// Groups the elementwise ops that are connected by tiles of i64. Each group is walked once.
class WideProducts {
 public:
  /// Returns true if the group of an elementwise op has a multiplication and a right shift, as code
  /// that takes the high word of a product has.
  bool contains(mlir::Operation* op);
  /// Returns the number of ops walked so far.
  size_t walked() const { return known.size(); }

 private:
  llvm::DenseMap<mlir::Operation*, bool> known;
};

}  // namespace ligerdsl::compiler::nvptx
