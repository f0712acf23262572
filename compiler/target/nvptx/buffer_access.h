// Addresses of a tile's elements in a buffer in shared memory.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Returns the stride in bytes of each dimension of a row-major buffer.
llvm::SmallVector<int64_t> byteStrides(tgpu::MemDescType type);

/// Addresses of a tile's registers in a buffer, whose rows may be padded or swizzled. The buffer
/// holds the whole tile or this CTA's part of it. With `begin`, the buffer holds a larger tile, and
/// the accessed tile begins at element `begin` of the larger one.
class BufferAccess {
 public:
  BufferAccess(ThreadLowering& t, tgpu::MemDescType type, mlir::Value buffer,
               mlir::RankedTensorType tile, llvm::ArrayRef<int64_t> begin = {});

  mlir::Value pointer(int64_t reg);

  // Elements per access: consecutive registers that are contiguous in the buffer, at most 16 bytes.
  int64_t chunk = 1;
  ThreadLowering& t;
  tgpu::MemDescType type;
  const ThreadLayout& layout;

 private:
  mlir::Value bytes(mlir::Value coordinate, int64_t stride);
  mlir::Value sum(mlir::Value a, mlir::Value c);
  mlir::Value at(mlir::Value address, mlir::Value offset);
  mlir::Value at(mlir::Value address, int64_t offset);
  int64_t beginOf(int dim) const { return begin.empty() ? 0 : begin[dim]; }
  mlir::Value swizzled(mlir::Value row, mlir::Value column);
  mlir::Value swizzledPointer(int64_t reg);

  mlir::Value buffer,
      thread;          // addresses of the buffer and of register 0; `thread` is unset if swizzled
  mlir::Value offset;  // bytes from `buffer` to register 0
  llvm::SmallVector<int64_t> strides;  // bytes
  llvm::SmallVector<int64_t, 2> begin;
};

/// Returns the address of part `index` of a buffer with parts of `bytes` bytes.
mlir::Value bufferPart(ThreadLowering& t, mlir::Value buffer, mlir::Value index, int64_t bytes);

/// Runs `emit` inside a branch on `predicate`, or without a branch if `predicate` is null.
void under(ThreadLowering& t, mlir::Value predicate, llvm::function_ref<void()> emit);

}  // namespace ligerdsl::compiler::nvptx
