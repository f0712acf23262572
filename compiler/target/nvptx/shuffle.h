// What the lanes of a warp tell each other. Every lane of the warp takes part.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace ligerdsl::compiler::nvptx {

/// A scalar of any element type from the lane `offset` away: below (up), above (down) or across (bfly).
mlir::Value shuffle(ThreadLowering& t, mlir::Value value, int64_t offset, mlir::NVVM::ShflKind kind);

/// A scalar of any element type from the lane whose number has 0 in the bits of `lanes`.
mlir::Value fromFirstOf(ThreadLowering& t, mlir::Value value, uint64_t lanes);

}  // namespace ligerdsl::compiler::nvptx
