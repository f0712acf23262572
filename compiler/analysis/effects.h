// What an op by itself, without its regions, does to memory: one answer for both targets.
//
// An op says it in its .td: Pure, RecursiveMemoryEffects, or MemoryEffects that hold for every operand that is an address
// (a view, a pointer, a tile of pointers, a buffer in shared memory). Ops whose operands differ, and ops that have effects
// but no address, are named in effects.cpp. Of any other op the effects are unknown, and no target compiles it.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace ligerdsl::compiler {

/// Of one operand.
struct OperandEffect {
  mlir::Value address;
  bool reads = false, writes = false;
  bool isShared() const;  // else in global memory
};
using OperandEffects = llvm::SmallVector<OperandEffect, 2>;

/// Fails, without a diagnostic, if the effects are unknown.
mlir::FailureOr<OperandEffects> effectsOf(mlir::Operation* op);

/// Whether the op reads or writes through an operand, or may.
bool readsMemory(mlir::Operation* op);
bool writesMemory(mlir::Operation* op);

/// Whether all threads of the CTA meet here: what they have done to memory before comes before what they do behind it.
bool meetsThreads(mlir::Operation* op);

/// On a tgpu.barrier: in front of it every thread shows what it has read and written to tensor copies, by a proxy fence.
inline constexpr llvm::StringLiteral kProxyFenceAttr = "tgpu.proxy_fence";

/// Whether the threads have such a fence in front of where they meet.
bool fencesProxies(mlir::Operation* op);

/// Whether the op has effects but touches no global memory.
bool touchesOnlyShared(mlir::Operation* op);

/// Fails with an error at the first op below `root` whose effects are unknown.
mlir::LogicalResult verifyEffects(mlir::Operation* root);

}  // namespace ligerdsl::compiler
