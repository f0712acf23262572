// Buffers in shared memory: their sizes and who uses them.
#pragma once

#include "compiler/dialect/tgpu.h"

namespace ligerdsl::compiler {

/// Buffers of up to as many bytes share their place with no other: memory that is not reused needs no barrier.
inline constexpr int64_t kUnsharedBytes = 512;

/// Bytes of one element in shared memory (i1 takes one byte, a pointer eight).
inline int64_t sharedElementBytes(mlir::Type element) {
  if (mlir::isa<tile::PtrType>(element)) return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

inline int64_t bufferBytes(tgpu::MemDescType type) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back()) rows *= size;
  return rows * (type.getShape().back() + type.getRowPad()) * sharedElementBytes(type.getElementType());
}

/// The tile that is read from where this copy goes: its layout says which thread copies what. Null if it is never read.
inline mlir::Value stagedTile(tgpu::AsyncCopyOp stage) {
  mlir::Value buffer = stage.getBuffer();
  if (auto stage = buffer.getDefiningOp<tgpu::LocalStageOp>()) buffer = stage.getBuffer();
  llvm::SmallVector<mlir::Value> places{buffer};
  for (mlir::Operation* user : buffer.getUsers())
    if (auto stage = mlir::dyn_cast<tgpu::LocalStageOp>(user)) places.push_back(stage);
  for (mlir::Value place : places)
    for (mlir::Operation* user : place.getUsers())
      if (auto staged = mlir::dyn_cast<tgpu::StagedTileOp>(user)) return staged.getResult();
  return {};
}

}  // namespace ligerdsl::compiler
