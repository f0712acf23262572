// Elementwise ops on registers. A register is a scalar or 1-D vector that holds one tile element,
// or W contiguous ones.
//
// Registers hold f16 and bf16 as i16, because LLVM would call library functions for their
// arithmetic. They hold pointers as i64, and everything else unchanged. Memory holds i1 as i8.
#pragma once

#include <functional>

#include "compiler/dialect/tile.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler::cpu {

mlir::Type registerType(mlir::Type element);
mlir::Type storageType(mlir::Type element);
/// Returns the type of a register of `lanes` elements: a scalar type for 1, else a vector type.
mlir::Type registerType(mlir::Type element, int64_t lanes);

class Registers {
 public:
  /// `outer` returns the register of a scalar that a combiner uses but does not define.
  Registers(mlir::OpBuilder& b, bool hasF16c, std::function<mlir::Value(mlir::Value)> outer)
      : b(b), hasF16c(hasF16c), outer(std::move(outer)) {}

  /// Emits `op` (elementwise on tiles or scalars) on registers of `lanes` elements. Scalar operands
  /// are repeated in all lanes. Returns null, with an error on `op`, if the CPU target does not
  /// support it.
  mlir::Value emit(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands, int64_t lanes);
  /// Returns the constant of a scalar attribute.
  mlir::Value constant(mlir::Location loc, mlir::TypedAttr scalar);
  mlir::Value splat(mlir::Location loc, mlir::Value scalar, int64_t lanes);
  /// Emits a combiner region on registers. Returns the values that it yields, or none on failure.
  llvm::SmallVector<mlir::Value> combine(mlir::Region& combiner,
                                         llvm::ArrayRef<mlir::Value> arguments, int64_t lanes);
  /// Returns the identity of a named reduction.
  mlir::Value identity(mlir::Location loc, tile::ReductionKind kind, mlir::Type element);

  mlir::Value toMemory(mlir::Location loc, mlir::Value value, mlir::Type element);
  mlir::Value fromMemory(mlir::Location loc, mlir::Value value, mlir::Type element);
  mlir::Value toF32(mlir::Location loc, mlir::Value value, mlir::Type element);
  mlir::Value fromF32(mlir::Location loc, mlir::Value value, mlir::Type element);

 private:
  mlir::Value narrowBf16(mlir::Location loc, mlir::Value f32);
  mlir::Value narrowF16(mlir::Location loc, mlir::Value f32);
  mlir::Value widenF16(mlir::Location loc, mlir::Value i16);
  mlir::Value divideIntegers(mlir::Operation* op, mlir::Value a, mlir::Value b);
  mlir::Value extremum(mlir::Operation* op, mlir::Value a, mlir::Value b);
  mlir::Value clone(mlir::Operation* op, llvm::ArrayRef<mlir::Value> operands, mlir::Type result);
  mlir::Value integer(mlir::Location loc, mlir::Type type, int64_t value);

  mlir::OpBuilder& b;
  bool hasF16c;
  std::function<mlir::Value(mlir::Value)> outer;
};

}  // namespace ligerdsl::compiler::cpu
