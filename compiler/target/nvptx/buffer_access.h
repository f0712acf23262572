// Where the elements of a tile are in a buffer in shared memory.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

/// Bytes from one element of a row-major buffer to the next, along each dimension.
llvm::SmallVector<int64_t> byteStrides(tgpu::MemDescType type);

/// Addresses of a tile's registers in a buffer whose rows are padded or swizzled. A buffer may hold the part of this CTA, or,
/// with `begin`, a larger tile of which this is a stretch.
class BufferAccess {
 public:
  BufferAccess(ThreadLowering& t, tgpu::MemDescType type, mlir::Value buffer, mlir::RankedTensorType tile,
               llvm::ArrayRef<int64_t> begin = {});

  mlir::Value pointer(int64_t reg);

  int64_t chunk = 1;  // neighbouring registers that are neighbours in the buffer
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

  mlir::Value buffer, thread;          // where the buffer begins, and the thread's first register, of which swizzled
  mlir::Value offset;                  // rows have the offset only
  llvm::SmallVector<int64_t> strides;  // bytes
  llvm::SmallVector<int64_t, 2> begin;
};

/// Part `index` of a buffer, whose parts have this many bytes.
mlir::Value bufferPart(ThreadLowering& t, mlir::Value buffer, mlir::Value index, int64_t bytes);

/// Calls `emit` in the threads where the predicate holds; null: in all.
void under(ThreadLowering& t, mlir::Value predicate, llvm::function_ref<void()> emit);

}  // namespace ligerdsl::compiler::nvptx
