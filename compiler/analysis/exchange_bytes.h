// Shared memory for the exchange of values between threads: reductions, scans, gathers and layout
// conversions.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Largest exchange, in bytes, that alternates between two buffers in a loop. The second buffer
/// saves a barrier per iteration. For larger exchanges, a barrier is cheap compared with the
/// exchange.
inline constexpr int64_t kMostAlternatingBytes = 1024;

/// Set of tgpu.convert_layout ops.
using Conversions = llvm::SmallPtrSet<mlir::Operation*, 4>;

/// Returns true if the conversion needs shared memory. It needs none if threads keep their
/// elements, or if pairs of lanes exchange words (bitSwap).
bool passesMemory(tgpu::ConvertLayoutOp op);

/// Returns the buffer for the conversion of a tile to the layout of `result`.
tgpu::MemDescType exchangeBuffer(mlir::RankedTensorType source, mlir::RankedTensorType result);

/// Returns true if the exchange is within warps, so that it needs no shared memory.
bool staysInWarp(tile::ShuffleXorOp op);

/// Returns an upper bound, in bytes, of the shared memory that exchanges use at any time during
/// `scope`, a kernel or one of its loops. Rings and other buffers that are live during `scope` need
/// their memory in addition. Exchanges must not be lowered yet. Ops on tiles without a layout, and
/// conversions in `vanishing`, do not count.
int64_t exchangeBytes(mlir::Operation* scope, const Conversions& vanishing = {});

}  // namespace ligerdsl::compiler
