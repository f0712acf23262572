// Warp shuffles. All lanes of the warp must execute them.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace ligerdsl::compiler::nvptx {

/// Returns the value of the lane at distance `offset`: a lower lane (up), a higher lane (down), or
/// the lane whose number differs in the bits of `offset` (bfly). Works for any element type.
mlir::Value shuffle(ThreadLowering& t, mlir::Value value, int64_t offset,
                    mlir::NVVM::ShflKind kind);

/// Returns the value of the lane whose number is this lane's with the bits of `lanes` cleared.
/// Works for any element type.
mlir::Value fromFirstOf(ThreadLowering& t, mlir::Value value, uint64_t lanes);

}  // namespace ligerdsl::compiler::nvptx
