// One access of one thread to memory: up to 16 bytes, plain or predicated.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Where a run of elements is cached, and which it is among those that leave.
struct AccessHints {
  tile::CacheHint cache = tile::CacheHint::normal;
  mlir::Value policy;  // of the second-level cache (cachePolicy), i64; null: none
  bool any() const { return cache != tile::CacheHint::normal || policy; }
};

/// The second-level cache's policy for accesses to a view; null for EvictHint::normal. PTX ISA: createpolicy.
mlir::Value cachePolicy(ThreadLowering& t, mlir::Value view, tile::EvictHint evict);

/// Bytes of one element in memory (i1 takes one).
inline int64_t memoryBytes(mlir::Type element) {
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

/// Loads `count` neighbouring elements of global or shared memory (count * bytes <= 16, a power of two) from an address
/// aligned to all of them. Where `predicate` (may be null) is false the result is `others` (one scalar per element).
llvm::SmallVector<mlir::Value> loadElements(ThreadLowering& t, mlir::Value pointer, mlir::Type element, int64_t count,
                                            mlir::Value predicate, llvm::ArrayRef<mlir::Value> others,
                                            AccessHints hints);

/// The mirror image; nothing is stored where `predicate` is false.
void storeElements(ThreadLowering& t, mlir::Value pointer, llvm::ArrayRef<mlir::Value> elements, mlir::Value predicate,
                   AccessHints hints);

/// Adds neighbouring f32 to those at an address in global memory aligned to all of them; nothing where `predicate` is false.
void addElements(ThreadLowering& t, mlir::Value pointer, llvm::ArrayRef<mlir::Value> elements, mlir::Value predicate,
                 mlir::Value policy);

/// PTX with side effects; the result (none for a null type) and operands as the constraints say.
mlir::Value inlinePtx(ThreadLowering& t, mlir::Type result, mlir::ValueRange operands, const std::string& text,
                      const std::string& constraints);

/// The 32-bit address of a shared pointer.
mlir::Value sharedAddress(ThreadLowering& t, mlir::Value pointer);

/// A global pointer from an i64 address.
mlir::Value globalPointer(ThreadLowering& t, mlir::Value address);

/// Brings the line at a global address into the second-level cache where the predicate (null = always) holds.
void prefetchLine(ThreadLowering& t, mlir::Value pointer, mlir::Value predicate);

}  // namespace ligerdsl::compiler::nvptx
