// Pipelined loops with matmuls, which stay loops while the canonicalizer runs.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

/// While it lives, keeps the canonicalizer from folding pipelined loops with a matmul. It would
/// replace every loop of one iteration by straight-line code. The loop is needed until
/// tile-prefetch-loads has run. Only loads of a loop get a ring in shared memory, which wgmma
/// reads. Only a loop can continue its copies across tiles of the result.
///
/// The loop's upper bound becomes an op that has no folder. The destructor restores it.
class KeptLoops {
 public:
  explicit KeptLoops(mlir::ModuleOp module);
  ~KeptLoops();
  KeptLoops(const KeptLoops&) = delete;

 private:
  mlir::ModuleOp module;
};

}  // namespace ligerdsl::compiler
