// What one op does to memory, and whether two ops need a barrier between them.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/dialect/tile.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

struct MemoryAccess {
  mlir::Operation* op = nullptr;
  bool reads = false, writes = false, atomic = false;

  // Shared memory: the bytes [begin, end); remote: of every CTA of the cluster.
  bool shared = false, remote = false;
  int64_t begin = 0, end = 0;
  // Of a stage that changes with every iteration of a loop (tgpu.local_stage on a value that the loop flips): the
  // buffer, the flipped value, and how often the loop has turned since this access.
  mlir::Value buffer = nullptr;
  mlir::BlockArgument phase = nullptr;
  int turns = 0;
  bool exchange = false;       // tgpu.cluster_send and what it brings: a wait stands between, and two turns are apart
  mlir::Value ring = nullptr;  // whose slots these are: it orders what happens to them
  bool async = false;          // by the proxy of copies and wgmma, not as threads access memory

  // Global memory: the argument it belongs to, if it is known; which argument facts say what it overlaps. Of an op that
  // reads several views, which one.
  int part = 0;
  mlir::Value root = nullptr;
  mlir::Value view = nullptr;  // the address itself: a view, maybe a slice, or a pointer
  int64_t aliasClass = 0;
  bool readOnly = false;
  bool alone = false;  // no other argument reaches this memory
};

using MemoryAccesses = llvm::SmallVector<MemoryAccess, 2>;

/// What an op on tiles that have layouts does to memory: a tgpu.ring_fill may read several views, a tgpu.cluster_send
/// writes several buffers. Fails, without a diagnostic, if that is unknown (effects.h).
mlir::FailureOr<MemoryAccesses> memoryAccesses(mlir::Operation* op);

MemoryAccess memoryAccess(tile::LoadTileOp load);

/// What tensor copies write. It is none of memoryAccesses(): whoever reads it waits at a memory barrier. What was in that memory before, the
/// ring's own slots aside, nothing but a barrier separates from it.
MemoryAccesses tensorCopies(tgpu::RingFillOp fill);

/// Whether the op by itself may write what an access touches.
bool mayWriteTo(mlir::Operation* op, const MemoryAccess& place);

/// Whether a buffer in shared memory belongs to a cluster exchange.
bool isOfExchange(mlir::Value buffer);

/// Whether two accesses may meet in one place, as far as offsets and the facts about arguments tell.
bool mayOverlap(const MemoryAccess& a, const MemoryAccess& b);

/// Whether `later`, executed after `earlier`, might meet in one place with it, at least one writing, in different
/// threads. Two accesses that assign elements to threads alike stay in program order by themselves.
bool needsBarrier(const MemoryAccess& earlier, const MemoryAccess& later);

/// Whether, in addition, a proxy fence must stand between the two: a tensor copy writes where threads have read or written, or a tensor store
/// reads where they have written.
bool needsProxyFence(const MemoryAccess& earlier, const MemoryAccess& later);

/// Whether two such threads may be of different CTAs of a cluster.
inline bool meetsAcrossCtas(const MemoryAccess& earlier, const MemoryAccess& later) {
  return !earlier.shared || earlier.remote || later.remote;
}

}  // namespace ligerdsl::compiler
