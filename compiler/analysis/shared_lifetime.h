// When a ring's slots hold something, by the structure of the kernel: so long nobody else may have their memory.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// On the tgpu.ring_release or tgpu.ring_await behind a pipelined loop: no copy is under way behind it, and nothing reads what slots
/// hold by then. A ring may be older than the loop it is for, as memory barriers count from 0 once; its slots need not be.
inline constexpr llvm::StringLiteral kEmptiedAttr = "tgpu.emptied";

/// From the begin of `first` to the end of `last`, two ops of one block; in a loop's body, in each iteration anew. Null: while the
/// kernel runs.
struct Lifetime {
  mlir::Operation *first = nullptr, *last = nullptr;

  /// Whether it and an op's time, all iterations of a loop included, have anything in common.
  bool meets(mlir::Operation* scope) const;
};

/// Of the parts of a ring, not of its memory barriers, which live as long as the kernel. Memory that bulk copies fill lives so long, too: they
/// go on from one row to the next.
Lifetime lifetimeOf(tgpu::RingOp ring);

}  // namespace ligerdsl::compiler
