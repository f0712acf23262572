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
  // Stage that alternates in every iteration of a loop: its buffer, the index that the loop flips
  // (tgpu.local_stage), and the iterations since this access.
  mlir::Value buffer = nullptr;
  mlir::BlockArgument phase = nullptr;
  int iterations = 0;
  bool exchange = false;  // part of a cluster exchange, which alternates between two stages; a wait
                          // separates iterations
  mlir::Value ring = nullptr;  // the ring of these slots, which orders accesses to them
  bool async = false;          // by the async proxy (copies and wgmma), not by thread instructions

  // Global memory: the argument, if known, and its facts about overlap. `part` is the view's number
  // if the op reads several.
  int part = 0;
  mlir::Value root = nullptr;
  mlir::Value view = nullptr;  // the address itself: a view, a slice of one, or a pointer
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

/// Returns the writes of TMA copies, which memoryAccesses() omits because readers wait at an
/// mbarrier. They need a barrier only after earlier accesses to that memory, except accesses to
/// slots of the same ring.
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

/// Returns true if the threads of two such accesses may be in different CTAs of a cluster.
inline bool meetsAcrossCtas(const MemoryAccess& earlier, const MemoryAccess& later) {
  return !earlier.shared || earlier.remote || later.remote;
}

}  // namespace ligerdsl::compiler
