// Operand A of a wgmma in a loop-invariant ring. If A is the same in all iterations of a loop, it
// has a ring of its own (passes/prefetch_loads.cpp) and tgpu.wgmma takes it as a tile that
// tgpu.ring_read reads. If its rows are swizzled, the read is not lowered: the tensor cores read A
// from shared memory.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler::nvptx {

// Returns the tgpu.ring_read that defines `tile`, if it reads a whole swizzled part; else null.
inline tgpu::RingReadOp operandInSlot(mlir::Value tile) {
  auto read = tile.getDefiningOp<tgpu::RingReadOp>();
  if (!read || read.getLimit() || read.getBegin()) return {};
  return read.getRing().getType().part(read.getPart()).getSwizzle() ? read : tgpu::RingReadOp();
}

}  // namespace ligerdsl::compiler::nvptx
