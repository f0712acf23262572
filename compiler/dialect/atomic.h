// Ops that update elements behind pointers atomically and give the old values: what all of them have, for passes and targets.
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

/// The operands of an atomic; the result has the type of each value.
struct AtomicOperands {
  mlir::Value ptr;
  llvm::SmallVector<mlir::Value, 2> values;
  mlir::Value mask;  // null: all elements
};
AtomicOperands atomicOperands(mlir::Operation* atomic);

/// The same atomic on other operands, which may be of another shape.
mlir::Operation* cloneAtomic(mlir::OpBuilder& builder, mlir::Operation* atomic, const AtomicOperands& operands);

/// One element's update, in the LLVM dialect; gives the old value. `scope` as LLVM names it: "device", or "" for the host.
mlir::Value updateElement(mlir::OpBuilder& builder, mlir::Operation* atomic, mlir::Value pointer,
                          llvm::ArrayRef<mlir::Value> values, llvm::StringRef scope);

}  // namespace ligerdsl::compiler
