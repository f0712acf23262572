// Lowering of tgpu.ring_fill for rings that bulk copies (cp.async.bulk) fill.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult fillByBulkCopies(ThreadLowering& t, tgpu::RingFillOp op);

}  // namespace ligerdsl::compiler::nvptx
