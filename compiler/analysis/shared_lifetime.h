// Time during which the slots of a ring hold tiles, from the structure of the kernel. During this
// time no other buffer may use their memory.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// Attribute of the tgpu.ring_release or tgpu.ring_await after a pipelined loop: no copy is in
/// flight after it, and nothing reads the slots any more. A ring can be created before its loop,
/// because its mbarriers are initialised once. Its slots need not be reserved that early.
inline constexpr llvm::StringLiteral kEmptiedAttr = "tgpu.emptied";

/// Time from the start of `first` to the end of `last`, two ops of one block. In the body of a
/// loop, this holds in each iteration. Null: the whole kernel.
struct Lifetime {
  mlir::Operation *first = nullptr, *last = nullptr;

  /// Returns true if this time overlaps that of an op; a loop counts with all its iterations.
  bool meets(mlir::Operation* scope) const;
};

/// Returns the lifetime of the parts of a ring. Its mbarriers live as long as the kernel. Parts
/// that bulk copies fill do too, because the copies go on from one row to the next.
Lifetime lifetimeOf(tgpu::RingOp ring);

}  // namespace ligerdsl::compiler
