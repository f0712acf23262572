// Numbers of 8 bits, f8E4M3FN and f8E5M2, as integer arithmetic on f32: on CPUs, and on GPUs without the instructions.
#pragma once

#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// tile.fp8_decode to f32, of codes that are an i8 or a vector of them.
mlir::Value decodeFp8(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value codes, mlir::Type format);

/// tile.fp8_encode of f32, a scalar or a vector; a NaN is 0x7f, with its sign.
mlir::Value encodeFp8(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value numbers, mlir::Type format);

}  // namespace ligerdsl::compiler
