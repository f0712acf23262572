// Warp shuffles. All lanes of the warp must execute them.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace ligerdsl::compiler::nvptx {

/// Returns the value of lane (this lane - offset) for up, + offset for down, and ^ offset for bfly.
/// Works for any element type.
mlir::Value shuffle(ThreadLowering& t, mlir::Value value, int64_t offset,
                    mlir::NVVM::ShflKind kind);

/// Returns the value of lane (this lane & ~lanes). Works for any element type.
mlir::Value fromFirstOf(ThreadLowering& t, mlir::Value value, uint64_t lanes);

}  // namespace ligerdsl::compiler::nvptx
