// What codes of fp8 stand for.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The numbers of these codes as `element`, f16 or f32.
llvm::SmallVector<mlir::Value> decodedFp8(ThreadLowering& t, llvm::ArrayRef<mlir::Value> codes, mlir::Type format,
                                          mlir::Type element);

}  // namespace ligerdsl::compiler::nvptx
