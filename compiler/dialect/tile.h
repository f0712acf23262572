// The tile dialect's C++ interface; TileOps.td describes every op.
#pragma once

#include "compiler/dialect/TileDialect.h.inc"
#include "compiler/dialect/TileEnums.h.inc"
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
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/TileOps.h.inc"

namespace ligerdsl::compiler::tile {

/// Attribute names on the kernel function and its arguments.
inline constexpr llvm::StringLiteral kKernelAttr = "tile.kernel";
inline constexpr llvm::StringLiteral kAliasClassAttr = "tile.alias_class";
inline constexpr llvm::StringLiteral kReadOnlyAttr = "tile.read_only";
// Attribute of the argument that holds the next program's number
// (KernelBuilder::dynamic_persistent). No other argument overlaps it.
inline constexpr llvm::StringLiteral kNextProgramAttr = "tile.next_program";
/// Loop attributes on scf.for.
inline constexpr llvm::StringLiteral kNumStagesAttr = "tile.num_stages";
inline constexpr llvm::StringLiteral kTensorCopiesAttr = "tile.tensor_copies";
inline constexpr llvm::StringLiteral kUnrollAttr = "tile.unroll";
/// Plan of a pipelined loop, on scf.for. tile-prefetch-loads writes it before it rewrites the loop;
/// compiler/pipeline/README.md lists the values.
inline constexpr llvm::StringLiteral kMechanismAttr = "tile.mechanism";
inline constexpr llvm::StringLiteral kPlannedStagesAttr = "tile.planned_stages";
inline constexpr llvm::StringLiteral kCopiesAttr = "tile.copies";
inline constexpr llvm::StringLiteral kCopiesFirstAttr = "tile.copies_first";
inline constexpr llvm::StringLiteral kAcrossLoopsAttr = "tile.across_loops";
/// Plan attributes on a load of the loop, and on the layout conversion of a dot's operand.
inline constexpr llvm::StringLiteral kLoadedAttr = "tile.loaded";
inline constexpr llvm::StringLiteral kStagedAttr = "tile.staged";
inline constexpr llvm::StringLiteral kFromSlotAttr = "tile.from_slot";
/// Attribute of an scf.while whose iterations are independent programs
/// (KernelBuilder::dynamic_persistent).
inline constexpr llvm::StringLiteral kIndependentAttr = "tile.independent";

/// Returns the tile shape of a partition with this `tile_shape` attribute, without squeezed (0)
/// dimensions.
llvm::SmallVector<int64_t> resultShape(llvm::ArrayRef<int64_t> tileShape);

inline constexpr int64_t kVectorBytes = 16;  // bytes of the widest load or store

/// Returns true if the last axis is contiguous and the type does not prove that rows are aligned.
bool rowsMayBeginInsideVectors(ViewType view);

/// Returns the type of a slice of a view along `axis`, for any begin and size.
ViewType sliceType(ViewType view, size_t axis);

/// Returns the largest possible value, in elements, of this alignment offset.
int64_t maxAlignmentOffset(mlir::Value alignmentOffset);

/// Returns true for a legal tile dimension: c * 2^n with odd c <= 31.
bool isTileDim(int64_t size);

}  // namespace ligerdsl::compiler::tile
