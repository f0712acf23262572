// Shared memory for the ring of a pipelined loop.
#pragma once

#include "compiler/pipeline/loop_tiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ligerdsl::compiler {

/// Tiles that fit in shared memory, and the number of iterations that have a slot.
struct RingFit {
  LoopTiles tiles;  // without tiles of `once` that do not fit
  int64_t stages;
  int64_t room = 0;   // bytes that other buffers leave, over all CTAs of the cluster
  bool fits = false;  // there are tiles to stage, and room for two iterations
};

struct RingRoom {
  mlir::scf::ForOp loop;
  int64_t ctas;               // per cluster
  int64_t sharedBytes;        // per CTA
  int64_t leastForExchanges;  // part of `sharedBytes` that the ring leaves to exchanges

  /// Returns the bytes of shared memory left for the ring, over all CTAs of the cluster. Subtracts
  /// other rings that are live while `scope` runs, and the exchanges in `scope`, during which the
  /// ring is live.
  int64_t left(mlir::Operation* scope, const LoopTiles& tiles) const;
  /// Returns the bytes of one slot, over all CTAs.
  int64_t slotBytes(const LoopTiles& tiles) const;
  /// Returns the tiles that fit: those of up to `stages` iterations, and tiles that are copied
  /// once.
  RingFit fit(LoopTiles tiles, int64_t stages) const;
  /// Returns the bytes that the later loops in `outer` would need for their requested stages. These
  /// loops have no plan yet.
  int64_t bytesOfLaterLoops(mlir::scf::ForOp outer) const;
};

/// Returns the bytes of a tile in shared memory.
int64_t tileBytes(tile::LoadTileOp load);

}  // namespace ligerdsl::compiler
