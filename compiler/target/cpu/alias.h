// Alias analysis: which accesses may touch the same memory. It uses the facts about the kernel's
// arguments that the launcher checks.
#pragma once

#include "compiler/dialect/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

class AliasFacts {
 public:
  explicit AliasFacts(mlir::func::FuncOp function) : function(function) {}

  /// Returns the number of the kernel argument that a view, pointer or tile of pointers is based
  /// on, or -1 if that is not known.
  int rootOf(mlir::Value pointer) const;
  /// Returns the pointer or view operand of an op that reads or writes memory.
  static mlir::Value addressOf(mlir::Operation* access);

  bool mayAlias(mlir::Operation* a, mlir::Operation* b) const;
  /// Returns true if no store of this launch writes memory that `load` reads.
  bool readsConstantMemory(mlir::Operation* load) const;
  /// Returns true if a and b are partition accesses, and every memory element that both access has
  /// the same index in both tiles.
  bool sameElements(mlir::Operation* a, mlir::Operation* b) const;

 private:
  int64_t classOf(int root) const;
  /// Returns true if a and b are based on one argument, or on two arguments of one alias class.
  /// Arguments of one class are identical or disjoint in memory.
  bool sameMemory(mlir::Value a, mlir::Value b) const;
  bool sameGrid(mlir::Value a, mlir::Value b) const;
  mutable mlir::func::FuncOp function;  // accessors of MLIR op handles are not const
};

}  // namespace ligerdsl::compiler::cpu
