// Lowers tgpu.ring_fill to TMA copies (cp.async.bulk.tensor).
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult fillByTensorCopies(ThreadLowering& t, tgpu::RingFillOp op);

}  // namespace ligerdsl::compiler::nvptx
