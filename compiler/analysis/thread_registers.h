// What tiles cost a thread in registers.
#pragma once

#include <algorithm>

#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "program/gpu_arch.h"

namespace ligerdsl::compiler {

/// The architecture of a pass's option; null after an error if there is none of that name.
inline const program::GpuArch* archNamed(mlir::Operation* op, llvm::StringRef name) {
  const program::GpuArch* arch = program::find_gpu_arch(std::string_view(name));
  if (!arch) op->emitError("unknown GPU architecture '") << name << "'; expected one of " << program::gpu_arch_names();
  return arch;
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
