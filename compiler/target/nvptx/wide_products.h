// Finds elementwise ops that compute the high word of a 64-bit product. They are lowered one
// element at a time.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler::nvptx {

/// Groups elementwise ops that read or write the same i64 tiles. Each group is walked once.
class WideProducts {
 public:
  /// Returns true if the op's group contains a multiplication and a right shift, which together
  /// compute the high word.
  bool contains(mlir::Operation* op);
  /// Returns the number of ops walked so far.
  size_t walked() const { return known.size(); }

 private:
  llvm::DenseMap<mlir::Operation*, bool> known;
};

}  // namespace ligerdsl::compiler::nvptx
