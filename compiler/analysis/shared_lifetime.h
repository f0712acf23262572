// Lifetime of a ring's slots, as a range of ops of the kernel. During this time no other buffer may
// use their memory.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// Attribute of the tgpu.ring_release or tgpu.ring_await after a pipelined loop: no copy is in
/// flight after it, and nothing reads the slots any more. A ring may be created long before its
/// loop, because its mbarriers are initialised once; its slots need no memory that early.
inline constexpr llvm::StringLiteral kEmptiedAttr = "tgpu.emptied";

/// Time from the start of `first` to the end of `last`, two ops of one block. In a loop's body,
/// this time occurs in each iteration. If both are null, the time is the whole kernel.
struct Lifetime {
  mlir::Operation *first = nullptr, *last = nullptr;

  /// Returns true if this time overlaps the execution of `scope`, which for a loop is all
  /// iterations.
  bool meets(mlir::Operation* scope) const;
};

/// Returns the lifetime of a ring's parts. The mbarriers live as long as the kernel. Parts filled
/// by bulk copies also do, because the copies continue from one row to the next.
Lifetime lifetimeOf(tgpu::RingOp ring);

}  // namespace ligerdsl::compiler
