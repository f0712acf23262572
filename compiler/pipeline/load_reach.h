// How early the loads of a loop's body can be issued.
#pragma once

#include "compiler/analysis/memory_access.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class LoadReach {
 public:
  explicit LoadReach(PipelinedLoop& at) : at(at) {}

  /// Collects the loop's writes. Returns an atomic or an op with unknown effects, if there is one:
  /// it may communicate with other programs and announce what a later load reads.
  mlir::Operation* collectWrites();

  /// Not before its iteration, some iterations ahead, or once before the loop for all iterations.
  enum class Reach { none, ahead, always };
  /// Sets the loop's reasonNotAhead if the result is `none`.
  Reach of(tile::LoadTileOp load);

 private:
  bool staysBehind(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load);
  bool isInjective(mlir::Value value);

  PipelinedLoop& at;
  llvm::SmallVector<MemoryAccess> writes;
};

}  // namespace ligerdsl::compiler
