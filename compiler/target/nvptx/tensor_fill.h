// The slots of a ring that tensor copies fill.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

mlir::LogicalResult fillByTensorCopies(ThreadLowering& t, tgpu::RingFillOp op);

}  // namespace ligerdsl::compiler::nvptx
