// Conversion of f8E4M3FN and f8E5M2 by integer arithmetic on f32, for CPUs and for GPUs without the
// instructions.
#pragma once

#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Emits tile.fp8_decode to f32. `codes` is an i8 or a vector of i8.
mlir::Value decodeFp8(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value codes,
                      mlir::Type format);

/// Emits tile.fp8_encode of an f32 scalar or vector. Infinities and larger numbers become the
/// largest finite number. A NaN becomes 0x7f with its sign.
mlir::Value encodeFp8(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value numbers,
                      mlir::Type format);

}  // namespace ligerdsl::compiler
