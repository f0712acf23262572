// Shared memory for the exchange of values between threads: reductions, scans, gathers and layout
// conversions.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Largest exchange, in bytes, that alternates between two buffers in a loop. Two buffers cost
/// twice the shared memory; for larger exchanges, the cost of a barrier is relatively small.
inline constexpr int64_t kMostAlternatingBytes = 1024;

/// A set of layout conversions.
using Conversions = llvm::SmallPtrSet<mlir::Operation*, 4>;

/// Returns true if the conversion needs shared memory. It needs none if threads keep their
/// elements, or if pairs of lanes exchange words (bitSwap).
bool passesMemory(tgpu::ConvertLayoutOp op);

/// Returns the buffer for the conversion of a tile to the layout of `result`.
tgpu::MemDescType exchangeBuffer(mlir::RankedTensorType source, mlir::RankedTensorType result);

/// Returns true if the exchange is within warps, so that it needs no shared memory.
bool staysInWarp(tile::ShuffleXorOp op);

/// Returns an upper bound, in bytes, of the shared memory that exchanges use at a time while
/// `scope`, a kernel or one of its loops, runs. The pass tgpu-allocate-shared places it next to
/// buffers with the same lifetime. Every tile must have a layout (otherwise the result is 0), and
/// exchanges must not be lowered yet. Ignores conversions in `vanishing`.
int64_t exchangeBytes(mlir::Operation* scope, const Conversions& vanishing = {});

}  // namespace ligerdsl::compiler
