// ldmatrix: a warp loads its part of a tile from shared memory.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Loads this thread's elements of the tile by ldmatrix. Returns nullopt if the layout, element
/// type or buffer does not allow that. `begin` is as in BufferAccess.
std::optional<llvm::SmallVector<mlir::Value>> loadMatrices(ThreadLowering& t,
                                                           tgpu::MemDescType type,
                                                           mlir::Value buffer,
                                                           mlir::RankedTensorType tile,
                                                           llvm::ArrayRef<int64_t> begin);

}  // namespace ligerdsl::compiler::nvptx
