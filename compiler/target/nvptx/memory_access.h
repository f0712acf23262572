// A load, store or atomic addition by one thread: up to 16 bytes, optionally predicated.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Cache operator and L2 eviction policy of an access.
struct AccessHints {
  tile::CacheHint cache = tile::CacheHint::normal;
  mlir::Value policy;  // L2 cache policy (cachePolicy), i64, or null for none
  bool any() const { return cache != tile::CacheHint::normal || policy; }
};

/// Returns the L2 cache policy for accesses to a view, or null for EvictHint::normal. PTX ISA:
/// createpolicy.
mlir::Value cachePolicy(ThreadLowering& t, mlir::Value view, tile::EvictHint evict);

/// Returns the bytes of one element in memory (i1 takes one byte).
inline int64_t memoryBytes(mlir::Type element) {
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

/// Loads `count` contiguous elements of global or shared memory. Their total size in bytes is a
/// power of two, at most 16, and divides the address. Where `predicate` is false, the result is
/// `others`, one scalar per element. A null predicate is true.
llvm::SmallVector<mlir::Value> loadElements(ThreadLowering& t, mlir::Value pointer,
                                            mlir::Type element, int64_t count,
                                            mlir::Value predicate,
                                            llvm::ArrayRef<mlir::Value> others, AccessHints hints);

/// Stores contiguous elements, under the same conditions as loadElements. Stores nothing where
/// `predicate` is false.
void storeElements(ThreadLowering& t, mlir::Value pointer, llvm::ArrayRef<mlir::Value> elements,
                   mlir::Value predicate, AccessHints hints);

/// Atomically adds contiguous f32 elements to global memory (PTX ISA: red), where `predicate`
/// holds. The address is a multiple of their size.
void addElements(ThreadLowering& t, mlir::Value pointer, llvm::ArrayRef<mlir::Value> elements,
                 mlir::Value predicate, mlir::Value policy);

/// Emits inline PTX with side effects. A null result type means no result. The constraints describe
/// the result, then the operands.
mlir::Value inlinePtx(ThreadLowering& t, mlir::Type result, mlir::ValueRange operands,
                      const std::string& text, const std::string& constraints);

/// Returns the 32-bit address of a pointer to shared memory.
mlir::Value sharedAddress(ThreadLowering& t, mlir::Value pointer);

/// Returns an i64 address as a pointer to global memory.
mlir::Value globalPointer(ThreadLowering& t, mlir::Value address);

/// Prefetches the line at a global address into L2 where `predicate` holds; null means true.
void prefetchLine(ThreadLowering& t, mlir::Value pointer, mlir::Value predicate);

}  // namespace ligerdsl::compiler::nvptx
