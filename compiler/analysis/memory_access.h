// Memory accesses of one op, and whether two ops need a barrier between them.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/dialect/tile.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

struct MemoryAccess {
  mlir::Operation* op = nullptr;
  bool reads = false, writes = false, atomic = false;

  // Shared memory: the bytes [begin, end), in every CTA of the cluster if `remote`.
  bool shared = false, remote = false;
  int64_t begin = 0, end = 0;
  // Buffer of two stages that a loop alternates (tgpu.local_stage): the buffer, the stage index
  // that the loop carries, and the number of iterations since this access.
  mlir::Value buffer = nullptr;
  mlir::BlockArgument phase = nullptr;
  int iterations = 0;
  bool exchange = false;  // part of a cluster exchange, which has two alternating stages and waits
                          // once per iteration
  mlir::Value ring = nullptr;  // ring of the accessed slots; it orders accesses to them
  bool async = false;          // by the async proxy (TMA copy, wgmma), not a thread's load or store

  // Global memory: the kernel argument `root`, null if unknown, and its facts about overlap. If the
  // op reads several views, `part` is the number of the view.
  int part = 0;
  mlir::Value root = nullptr;
  mlir::Value view = nullptr;  // the address operand: a view, a slice of a view, or a pointer
  int64_t aliasClass = 0;
  bool readOnly = false;
  bool alone = false;  // no other argument overlaps this memory
};

using MemoryAccesses = llvm::SmallVector<MemoryAccess, 2>;

/// Returns the memory accesses of an op whose tiles have layouts. A tgpu.ring_fill may read several
/// views, and a tgpu.cluster_send writes several buffers. Fails, without an error message, if the
/// effects are unknown (effects.h).
mlir::FailureOr<MemoryAccesses> memoryAccesses(mlir::Operation* op);

MemoryAccess memoryAccess(tile::LoadTileOp load);

/// Returns the writes to shared memory of a fill by TMA copies. memoryAccesses() omits them because
/// readers wait at an mbarrier. They need a barrier only after earlier accesses to that memory,
/// unless those were accesses to slots of the same ring.
MemoryAccesses tensorCopies(tgpu::RingFillOp fill);

/// Returns true if the op, without its regions, may write memory that an access reads or writes.
bool mayWriteTo(mlir::Operation* op, const MemoryAccess& place);

/// Returns true if a buffer in shared memory belongs to a cluster exchange.
bool isOfExchange(mlir::Value buffer);

/// Returns true if two accesses may overlap, given their offsets and facts about arguments.
bool mayOverlap(const MemoryAccess& a, const MemoryAccess& b);

/// Returns true if `later`, executed after `earlier`, may access the same memory in a different
/// thread, and at least one of them writes. Two accesses that assign elements to threads in the
/// same way need no barrier, because each thread keeps its program order.
bool needsBarrier(const MemoryAccess& earlier, const MemoryAccess& later);

/// Returns true if a proxy fence is also needed: a TMA copy writes memory that threads have
/// accessed, or a TMA store reads memory that they have written.
bool needsProxyFence(const MemoryAccess& earlier, const MemoryAccess& later);

/// Returns true if the threads of two accesses that need a barrier may be in different CTAs.
inline bool conflictsAcrossCtas(const MemoryAccess& earlier, const MemoryAccess& later) {
  return !earlier.shared || earlier.remote || later.remote;
}

}  // namespace ligerdsl::compiler
