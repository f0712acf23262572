// Shared memory that values pass through on their way from thread to thread: reductions, scans, gathers, changes of
// layout.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Of exchanges in loops that are lowered to two buffers which take turns: stages cost shared memory twice, and a
/// barrier is small beside the exchange of more bytes than this.
inline constexpr int64_t kMostAlternatingBytes = 1024;

/// Whether it takes a change of layout: not if threads keep what they have, or if lanes of pairs exchange words (bitSwap).
bool passesMemory(tgpu::ConvertLayoutOp op);

/// The buffer through which a tile passes from its layout to that of `result`.
tgpu::MemDescType exchangeBuffer(mlir::RankedTensorType source, mlir::RankedTensorType result);

/// Whether both sides of the exchange are in one warp, so that it needs no memory.
bool staysInWarp(tile::ShuffleXorOp op);

/// An upper bound of what exchanges take at a time while `scope`, a kernel or a loop of it, runs: tgpu-allocate-shared
/// places them beside what lives as long. Every tile has its layout (else the answer is 0), and exchanges are not lowered
/// yet.
int64_t exchangeBytes(mlir::Operation* scope);

}  // namespace ligerdsl::compiler
