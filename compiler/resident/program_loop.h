// The loop of a dynamic persistent kernel, in which a CTA runs one program after the other
// (KernelBuilder::dynamic_persistent; tile.independent on scf.while).
#pragma once

#include <optional>

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Sources of a tile's indices.
struct IndexOrigin {
  bool program = false;  // program number along axis 0, of the grid or of a dynamic persistent loop
  bool memory = false;
};
IndexOrigin originOf(mlir::ValueRange indices);

/// Loop over programs, and an op in it that some programs reach.
class ProgramLoop {
 public:
  /// Returns the loop around the op. Returns nothing if there is none, or if an op other than a
  /// branch is between them.
  static std::optional<ProgramLoop> around(mlir::Operation* op);

  mlir::Operation* getOperation() { return loop; }

  /// Returns true if the value is defined outside of the loop.
  bool isOutside(mlir::Value value);

  /// Values that `values` have in this CTA's next program. They are computed before `at`, which is
  /// in the same block as the op. `reached` (i1) is true if the next program reaches the op;
  /// otherwise the values are 0.
  struct Next {
    mlir::Value reached;
    llvm::SmallVector<mlir::Value> values;
  };
  /// Emits the values of the next program. Returns nothing unless the values, and whether the op is
  /// reached, depend only on arithmetic and on memory that the kernel does not write.
  std::optional<Next> next(mlir::ValueRange values, mlir::Operation* at);

  /// Adds scalars that the loop carries from program to program, with initial values `first`.
  /// Returns their values in the current program.
  llvm::SmallVector<mlir::Value> receive(mlir::ValueRange first);
  /// Sets the scalars for the next program: `reached` in programs that reach the op, `otherwise` in
  /// the others. Call it once, after receive().
  void leave(mlir::ValueRange reached, mlir::ValueRange otherwise);

 private:
  ProgramLoop(mlir::scf::WhileOp loop, mlir::Operation* op) : loop(loop), op(op) {}

  mlir::scf::WhileOp loop;
  mlir::Operation* op;
};

}  // namespace ligerdsl::compiler
