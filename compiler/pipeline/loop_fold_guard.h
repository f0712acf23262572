// Prevents the canonicalizer from folding pipelined loops with matmuls.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

/// While this object exists, the canonicalizer does not fold pipelined loops with a matmul. It
/// would replace a loop of one iteration by straight-line code, but tile-prefetch-loads needs the
/// loop. Only loads in a loop get a ring in shared memory, which wgmma reads. Only a loop can
/// continue its copies across tiles of the result.
///
/// The constructor replaces the loop's upper bound by an op without a folder. The destructor
/// restores it.
class LoopFoldGuard {
 public:
  explicit LoopFoldGuard(mlir::ModuleOp module);
  ~LoopFoldGuard();
  LoopFoldGuard(const LoopFoldGuard&) = delete;

 private:
  mlir::ModuleOp module;
};

}  // namespace ligerdsl::compiler
