// Values that one inner loop leaves for its next execution. The loops around it carry them, and the
// branches in between yield them.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

namespace ligerdsl::compiler {

class LoopCarriedState {
 public:
  /// Returns the loops around `inner` and the branches between them, outermost loop first. Returns
  /// nothing if no loop is around it.
  static llvm::SmallVector<mlir::Operation*> around(mlir::scf::ForOp inner);

  /// Replaces the loops and branches around `inner`, which are scf.for and scf.if. The new ones
  /// also carry state whose initial values `inits` are defined before the outermost loop.
  LoopCarriedState(mlir::IRRewriter& rewriter, mlir::scf::ForOp inner, mlir::ValueRange inits);

  /// Returns the carried values at `inner`.
  llvm::ArrayRef<mlir::Value> values() const { return held; }
  /// Sets the values that `inner`, or the op that replaced it, leaves for its next execution.
  void leave(mlir::Operation* inner, mlir::ValueRange left);

  struct Replaced {
    mlir::Operation *before, *now;
  };
  llvm::ArrayRef<Replaced> replaced() const { return all; }

 private:
  mlir::Operation* replace(mlir::IRRewriter& rewriter, mlir::scf::ForOp loop);
  mlir::Operation* replace(mlir::IRRewriter& rewriter, mlir::scf::IfOp branch);

  llvm::SmallVector<mlir::Value> held;
  llvm::SmallVector<Replaced> all;
};

}  // namespace ligerdsl::compiler
