// Values that a loop leaves to the next one that takes its place: carried by the loops around it, and given on by the branches between.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

namespace ligerdsl::compiler {

class CarriedThrough {
 public:
  /// The loops around `inner` and the branches between them, the outermost loop first. Empty where no loop is around.
  static llvm::SmallVector<mlir::Operation*> around(mlir::scf::ForOp inner);

  /// Replaces what is around `inner`, which are counted loops and branches, with what carries `inits`, values in front of the outermost
  /// loop.
  CarriedThrough(mlir::IRRewriter& rewriter, mlir::scf::ForOp inner, mlir::ValueRange inits);

  /// What the values are in front of `inner`.
  llvm::ArrayRef<mlir::Value> values() const { return held; }
  /// What `inner`, or what has replaced it, leaves of them.
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
