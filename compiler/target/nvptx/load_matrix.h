// ldmatrix: a warp reads its part of a tile of 16-bit numbers from shared memory.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// The elements that this thread has of the tile; nothing where another instruction must read it. `begin` as in
/// BufferAccess.
std::optional<llvm::SmallVector<mlir::Value>> loadMatrices(ThreadLowering& t, tgpu::MemDescType type,
                                                           mlir::Value buffer, mlir::RankedTensorType tile,
                                                           llvm::ArrayRef<int64_t> begin);

}  // namespace ligerdsl::compiler::nvptx
