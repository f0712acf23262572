// What tiles cost a thread in registers.
#pragma once

#include <algorithm>

#include "compiler/dialect/tgpu.h"
#include "compiler/passes/layout_attr.h"

namespace ligerdsl::compiler {

/// Bytes of registers that each of `threads` on one processor can have.
inline int64_t registerBytes(int64_t threads) {
  constexpr int64_t kRegisterFile = 256 * 1024, kMostPerThread = 1020;
  return std::min(kRegisterFile / threads, kMostPerThread);
}

/// The value whose registers `value` shares: what it was spread from, if it is a broadcast or the like.
inline mlir::Value registersOf(mlir::Value value) {
  while (mlir::Operation* op = value.getDefiningOp()) {
    if (!mlir::isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp>(op)) break;
    value = op->getOperand(0);
  }
  return value;
}

/// Bytes of a tile that one thread holds; 0 for anything else, and for constants.
inline int64_t bytesPerThread(mlir::Value value) {
  value = registersOf(value);
  auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isIntOrFloat()) return 0;
  if (mlir::isa_and_nonnull<mlir::arith::ConstantOp>(value.getDefiningOp())) return 0;
  return layoutOf(type).registers() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Tiles of up to this many bytes per thread are not worth an effort.
inline constexpr int64_t kFewBytes = 16;

}  // namespace ligerdsl::compiler
