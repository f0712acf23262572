// Which accesses may touch the same memory, from the launcher's facts on the kernel's arguments.
#pragma once

#include "compiler/dialect/tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler::cpu {

class AliasFacts {
 public:
  explicit AliasFacts(mlir::func::FuncOp function) : function(function) {}

  /// The kernel argument that a view, pointer or tile of pointers is based on; -1 when several may be.
  int rootOf(mlir::Value pointer) const;
  /// The pointer or view operand of an op that reads or writes memory.
  static mlir::Value addressOf(mlir::Operation* access);

  bool mayAlias(mlir::Operation* a, mlir::Operation* b) const;
  /// True when no store of this launch reaches what `load` reads.
  bool readsConstantMemory(mlir::Operation* load) const;
  /// True when a and b are partition accesses that reach one memory element only at one tile index.
  bool sameElements(mlir::Operation* a, mlir::Operation* b) const;

 private:
  int64_t classOf(int root) const;
  /// The same view, or two that are exactly the same memory if they overlap at all.
  bool sameMemory(mlir::Value a, mlir::Value b) const;
  bool sameGrid(mlir::Value a, mlir::Value b) const;
  mutable mlir::func::FuncOp function;  // op handles have no const members
};

}  // namespace ligerdsl::compiler::cpu
