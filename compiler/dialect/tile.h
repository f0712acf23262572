// The tile dialect's C++ interface; TileOps.td describes every op.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/dialect/TileDialect.h.inc"
#include "compiler/dialect/TileEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/TileOps.h.inc"

namespace ligerdsl::compiler::tile {

/// Attribute names on the kernel function and its arguments.
inline constexpr llvm::StringLiteral kKernelAttr = "tile.kernel";
inline constexpr llvm::StringLiteral kAliasClassAttr = "tile.alias_class";
inline constexpr llvm::StringLiteral kReadOnlyAttr = "tile.read_only";
inline constexpr llvm::StringLiteral kNextProgramAttr =
    "tile.next_program";  // memory of its own (KernelBuilder::dynamic_persistent)
/// Loop attributes on scf.for.
inline constexpr llvm::StringLiteral kNumStagesAttr = "tile.num_stages";
inline constexpr llvm::StringLiteral kTensorCopiesAttr = "tile.tensor_copies";
inline constexpr llvm::StringLiteral kUnrollAttr = "tile.unroll";
/// On scf.while: its iterations are programs of their own (KernelBuilder::dynamic_persistent).
inline constexpr llvm::StringLiteral kIndependentAttr = "tile.independent";

/// The tile shape that a partition with this `tile_shape` attribute yields: squeezed (0) dimensions dropped.
llvm::SmallVector<int64_t> resultShape(llvm::ArrayRef<int64_t> tileShape);

inline constexpr int64_t kVectorBytes = 16;  // of the widest access

/// Whether nothing proves that rows (along the last axis, whose elements are neighbours) begin at whole vectors.
bool rowsMayBeginInsideVectors(ViewType view);

/// A view's type where elements of any begin and number are left of one dimension.
ViewType sliceType(ViewType view, size_t axis);

/// What no value of this alignment offset exceeds.
int64_t maxAlignmentOffset(mlir::Value alignmentOffset);

/// Whether the alignment offset is that of the only row which these tiles have elements of: every whole vector of a
/// tile, counted from its first column, begins at a multiple of kVectorBytes.
bool alignmentOffsetAligns(mlir::Value alignmentOffset, mlir::Value view, mlir::ValueRange indices,
                           llvm::ArrayRef<int64_t> tileShape);

/// A legal tile dimension: c * 2^n with odd c <= 31.
bool isTileDim(int64_t size);

}  // namespace ligerdsl::compiler::tile
