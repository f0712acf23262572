// Pipelined loops with matmuls, which stay loops while the canonicalizer runs.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

/// Keeps the canonicalizer, as long as it lives, from turning a pipelined loop with a matmul into straight-line code, which it
/// does to each loop of one iteration. Only in a loop do the matmul's operands wait in shared memory, where wgmma reads them, and do
/// copies go on from one tile of the result to the next (tile-assign-layouts, tile-prefetch-loads). Behind tile-prefetch-loads
/// nothing is lost by folding it.
///
/// The loop's upper bound becomes an op that nothing folds, and is put back at the end.
class KeptLoops {
 public:
  explicit KeptLoops(mlir::ModuleOp module);
  ~KeptLoops();
  KeptLoops(const KeptLoops&) = delete;

 private:
  mlir::ModuleOp module;
};

}  // namespace ligerdsl::compiler
