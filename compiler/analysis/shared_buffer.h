// Sizes and alignments of buffers in shared memory, and attributes about their use.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// Buffers of at most this size, in bytes, share their memory with no other buffer. They need no
/// barrier that separates one buffer's use from the next one's.
inline constexpr int64_t kUnsharedBytes = 512;

/// Smallest alignment of a buffer, in bytes.
inline constexpr int64_t kLeastAlignment = 16;

/// Returns the alignment of a buffer, in bytes. A swizzle repeats after eight rows of a panel, and
/// wgmma derives it from address bits, so a swizzled buffer is aligned to eight rows.
inline int64_t bufferAlignment(tgpu::MemDescType type) {
  constexpr int64_t kRows = 8;
  return std::max(kLeastAlignment, kRows * type.getSwizzle());
}

/// Attribute of a tgpu.ring_fill that runs in few iterations of a loop. Its code should be small
/// and use few registers.
inline constexpr llvm::StringLiteral kSeldomAttr = "tgpu.seldom";

/// Attribute of a persistent loop over output tiles of a matmul. Each iteration recomputes values
/// that depend only on the thread, because the accumulator needs their registers.
inline constexpr llvm::StringLiteral kTilesAttr = "tgpu.tiles";

/// Returns the bytes of one element in shared memory (1 for i1, 8 for a pointer).
inline int64_t sharedElementBytes(mlir::Type element) {
  if (mlir::isa<tile::PtrType>(element)) return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

inline int64_t bufferBytes(tgpu::MemDescType type) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back()) rows *= size;
  return rows * (type.getShape().back() + type.getRowPad()) *
         sharedElementBytes(type.getElementType());
}

/// Bytes of an mbarrier.
inline constexpr int64_t kBarrierBytes = 8;

/// Returns the bytes of a buffer that holds one mbarrier per slot.
inline int64_t barrierBytes(int64_t slots) {
  return llvm::alignTo(slots * kBarrierBytes, kLeastAlignment);
}

/// Returns the bytes of a ring's buffers: for each part, the bytes of all slots; last, the bytes of
/// the mbarriers, if the ring has them.
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
