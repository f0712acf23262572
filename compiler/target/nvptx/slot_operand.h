// Operand A of a wgmma in a loop-invariant ring. If A is the same in all iterations of a loop, it
// has its own ring (passes/prefetch_loads.cpp), and a tgpu.ring_read passes it to tgpu.wgmma. If
// the ring's rows are swizzled, tgpu.ring_read emits no code, and wgmma reads A from the ring.
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
