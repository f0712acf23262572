// Memory effects of one op, without its regions, for both targets.
//
// An op declares its effects in its .td: Pure, RecursiveMemoryEffects, or MemoryEffects.
// MemoryEffects apply to every address operand: a view, a pointer, a tile of pointers, or a buffer
// in shared memory. The file effects.cpp lists the exceptions: ops whose operands have different
// effects, and ops whose effects only keep other ops from moving across them. No target compiles an
// op outside these groups, because its effects are unknown.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

/// Memory effects of one operand.
struct OperandEffect {
  mlir::Value address;
  bool reads = false, writes = false;
  bool isShared() const;  // false: in global memory
};
using OperandEffects = llvm::SmallVector<OperandEffect, 2>;

/// Returns the effects of an op. Fails, without a diagnostic, if they are unknown.
mlir::FailureOr<OperandEffects> effectsOf(mlir::Operation* op);

/// Return true if the op may read memory (readsMemory), or may write it (writesMemory).
bool readsMemory(mlir::Operation* op);
bool writesMemory(mlir::Operation* op);

/// Returns true if the op synchronises the threads of the CTA. All threads then see the memory
/// accesses before the op as complete.
bool synchronisesThreads(mlir::Operation* op);

/// Attribute of a tgpu.barrier. Before the barrier, every thread executes a proxy fence, which
/// orders its accesses before later TMA copies.
inline constexpr llvm::StringLiteral kProxyFenceAttr = "tgpu.proxy_fence";

/// Returns true if every thread executes a proxy fence before the op synchronises them.
bool fencesProxies(mlir::Operation* op);

/// Returns true if the op has effects but does not access global memory.
bool touchesOnlyShared(mlir::Operation* op);

/// Fails with an error at the first op below `root` whose effects are unknown.
mlir::LogicalResult verifyEffects(mlir::Operation* root);

}  // namespace ligerdsl::compiler
