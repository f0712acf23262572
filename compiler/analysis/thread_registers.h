// Registers that tiles use in each thread.
#pragma once

#include <algorithm>

#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "program/gpu_arch.h"

namespace ligerdsl::compiler {

/// Returns the architecture that a pass's option names. Emits an error and returns null if the name
/// is unknown.
inline const program::GpuArch* archNamed(mlir::Operation* op, llvm::StringRef name) {
  const program::GpuArch* arch = program::find_gpu_arch(std::string_view(name));
  if (!arch)
    op->emitError("unknown GPU architecture '")
        << name << "'; expected one of " << program::gpu_arch_names();
  return arch;
}

/// Returns the value whose registers `value` shares: the source of a broadcast, splat or
/// expand_dims.
inline mlir::Value registersOf(mlir::Value value) {
  while (mlir::Operation* op = value.getDefiningOp()) {
    if (!mlir::isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp>(op)) break;
    value = op->getOperand(0);
  }
  return value;
}

/// Returns the bytes of registers that a tile uses per thread, or 0 for constants and for values
/// that are not tiles of numbers.
inline int64_t bytesPerThread(mlir::Value value) {
  value = registersOf(value);
  auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isIntOrFloat()) return 0;
  if (mlir::isa_and_nonnull<mlir::arith::ConstantOp>(value.getDefiningOp())) return 0;
  return layoutOf(type).registers() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Tiles of at most this size, in bytes per thread, are too small to be worth an optimisation.
inline constexpr int64_t kFewBytes = 16;

}  // namespace ligerdsl::compiler
