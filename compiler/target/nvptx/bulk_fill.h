// Lowers tgpu.ring_fill to bulk copies (cp.async.bulk).
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult fillByBulkCopies(ThreadLowering& t, tgpu::RingFillOp op);

}  // namespace ligerdsl::compiler::nvptx
