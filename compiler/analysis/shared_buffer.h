// Buffers in shared memory: their sizes and who uses them.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// Buffers of up to as many bytes share their place with no other: memory that is not reused needs no barrier.
inline constexpr int64_t kUnsharedBytes = 512;

/// Where any buffer may begin.
inline constexpr int64_t kLeastAlignment = 16;

/// Where a buffer may begin. Swizzles repeat after eight rows of a panel, and wgmma takes them from the address.
inline int64_t bufferAlignment(tgpu::MemDescType type) {
  constexpr int64_t kRows = 8;
  return std::max(kLeastAlignment, kRows * type.getSwizzle());
}

/// On a tgpu.ring_fill that runs in few of a loop's turns: its code is to be small, and to need few registers.
inline constexpr llvm::StringLiteral kSeldomAttr = "tgpu.seldom";

/// On a loop in which a CTA makes one tile of products after the other: what of a turn depends on the thread alone is computed
/// anew in each, rather than kept in registers beside the sums.
inline constexpr llvm::StringLiteral kTilesAttr = "tgpu.tiles";

/// Bytes of one element in shared memory (i1 takes one byte, a pointer eight).
inline int64_t sharedElementBytes(mlir::Type element) {
  if (mlir::isa<tile::PtrType>(element)) return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

inline int64_t bufferBytes(tgpu::MemDescType type) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back()) rows *= size;
  return rows * (type.getShape().back() + type.getRowPad()) * sharedElementBytes(type.getElementType());
}

/// Of a memory barrier.
inline constexpr int64_t kBarrierBytes = 8;

/// Of the buffer with those of so many slots.
inline int64_t barrierBytes(int64_t slots) {
  return llvm::alignTo(slots * kBarrierBytes, kLeastAlignment);
}

/// Of a ring's buffers: its parts, each with all its slots, and the memory barriers of its slots where it has any.
inline llvm::SmallVector<int64_t> bufferBytes(tgpu::RingType type) {
  llvm::SmallVector<int64_t> bytes;
  for (unsigned part = 0; part < type.getParts().size(); ++part)
    bytes.push_back(type.getSlots() * bufferBytes(type.part(part)));
  if (type.hasBarriers()) bytes.push_back(type.getSlots() * kBarrierBytes);
  return bytes;
}

inline int64_t ringBytes(tgpu::RingType type) {
  int64_t total = 0;
  for (int64_t bytes : bufferBytes(type)) total += bytes;
  return total;
}

}  // namespace ligerdsl::compiler
