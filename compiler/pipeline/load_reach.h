// Determines how early the loads of a loop's body can be issued.
#pragma once

#include "compiler/analysis/memory_access.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class LoadReach {
 public:
  explicit LoadReach(PipelinedLoop& at) : at(at) {}

  /// Collects the loop's writes. Returns an atomic, or an op with unknown effects, if the loop has
  /// one. Such an op may synchronise with other programs, which write memory that a later load
  /// reads.
  mlir::Operation* collectWrites();

  /// Earliest time to issue a load: in its own iteration, iterations ahead, or once before the
  /// loop.
  enum class Reach { none, ahead, always };
  /// Returns the earliest time. If it is `none`, sets the loop's reasonNotAhead.
  Reach of(tile::LoadTileOp load);

 private:
  bool mayMoveAheadOf(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load);
  bool isInjective(mlir::Value value);

  PipelinedLoop& at;
  llvm::SmallVector<MemoryAccess> writes;
};

}  // namespace ligerdsl::compiler
