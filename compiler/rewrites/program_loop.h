// The loop of a kernel whose CTAs run program after program (KernelBuilder::dynamic_persistent; tile.independent on
// scf.while).
#pragma once

#include <optional>

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// What indices of a tile are made of.
struct IndexOrigin {
  bool program = false;  // the number of the program (axis 0), of a kernel's or of such a loop's
  bool memory = false;
};
IndexOrigin originOf(mlir::ValueRange indices);

/// The loop, seen from an op that some of the programs reach.
class ProgramLoop {
 public:
  /// Nothing if the op is not in such a loop, or under more than branches of it.
  static std::optional<ProgramLoop> around(mlir::Operation* op);

  mlir::Operation* getOperation() { return loop; }

  /// Whether a value comes from outside of the loop.
  bool isOutside(mlir::Value value);

  /// What the program that this CTA runs next will have in place of `values`, computed in front of `at`, an op beside
  /// the one that the loop is seen from. `reached` (i1) tells whether it will get there at all; where not, values are
  /// 0.
  struct Next {
    mlir::Value reached;
    llvm::SmallVector<mlir::Value> values;
  };
  /// Nothing if that cannot be known there: a value depends on more than arithmetic and memory that is only read.
  std::optional<Next> next(mlir::ValueRange values, mlir::Operation* at);

  /// Scalars handed from program to program: what the one before left, `first` in the first one.
  llvm::SmallVector<mlir::Value> receive(mlir::ValueRange first);
  /// What programs that reach the op leave of what receive() gave, and the others. Once, after receive().
  void leave(mlir::ValueRange reached, mlir::ValueRange otherwise);

 private:
  ProgramLoop(mlir::scf::WhileOp loop, mlir::Operation* op) : loop(loop), op(op) {}

  mlir::scf::WhileOp loop;
  mlir::Operation* op;
};

}  // namespace ligerdsl::compiler
