// A first factor that is the same in all turns of a loop waits in a ring of its own (passes/prefetch_loads.cpp). As a value of
// tgpu.wgmma it is read like any tile; where it waits in swizzled rows it is not: the tensor cores read it there.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler::nvptx {

// The read of a whole swizzled part that the tile is, or null.
inline tgpu::RingReadOp factorInSlot(mlir::Value tile) {
  auto read = tile.getDefiningOp<tgpu::RingReadOp>();
  if (!read || read.getLimit() || read.getBegin()) return {};
  return read.getRing().getType().part(read.getPart()).getSwizzle() ? read : tgpu::RingReadOp();
}

}  // namespace ligerdsl::compiler::nvptx
