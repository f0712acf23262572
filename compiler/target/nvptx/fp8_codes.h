// Converts fp8 codes to numbers.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Returns fp8 `codes` as numbers of type `element`, f16 or f32.
llvm::SmallVector<mlir::Value> decodedFp8(ThreadLowering& t, llvm::ArrayRef<mlir::Value> codes,
                                          mlir::Type format, mlir::Type element);

}  // namespace ligerdsl::compiler::nvptx
