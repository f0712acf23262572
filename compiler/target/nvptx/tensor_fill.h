// Lowering of tgpu.ring_fill for rings that TMA copies (cp.async.bulk.tensor) fill.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult fillByTensorCopies(ThreadLowering& t, tgpu::RingFillOp op);

}  // namespace ligerdsl::compiler::nvptx
