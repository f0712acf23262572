// Sizes of shared-memory buffers.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

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

}  // namespace ligerdsl::compiler
