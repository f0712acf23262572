// Common interface of the ops that atomically update elements through pointers and return the old
// values. Passes and targets use it.
#pragma once

#include "compiler/dialect/tile.h"

#define GET_OP_CLASSES
#include "compiler/dialect/AtomicOps.h.inc"

namespace ligerdsl::compiler {

template <typename... Ops>
struct OpList {};
using AtomicOps = OpList<tile::AtomicRMWOp,
#define GET_OP_LIST
#include "compiler/dialect/AtomicOps.cpp.inc"
                         >;

bool isAtomic(mlir::Operation* op);

/// Operands of an atomic. The result has the type of each value.
struct AtomicOperands {
  mlir::Value ptr;
  llvm::SmallVector<mlir::Value, 2> values;
  mlir::Value mask;  // null means all elements
};
AtomicOperands atomicOperands(mlir::Operation* atomic);

/// Clones an atomic with other operands, which may have another shape.
mlir::Operation* cloneAtomic(mlir::OpBuilder& builder, mlir::Operation* atomic,
                             const AtomicOperands& operands);

/// Emits the update of one element in the LLVM dialect and returns the old value. `scope` is LLVM's
/// synchronisation scope: "device", or "" for the host.
mlir::Value updateElement(mlir::OpBuilder& builder, mlir::Operation* atomic, mlir::Value pointer,
                          llvm::ArrayRef<mlir::Value> values, llvm::StringRef scope);

}  // namespace ligerdsl::compiler
