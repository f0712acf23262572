// Between the #tgpu.layout attribute and compiler/layout, and the register renamings that shape ops are.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

/// The shared memory of a kernel in bytes, on its function once tgpu-allocate-shared has run.
inline constexpr llvm::StringLiteral kSharedBytesAttr = "tgpu.shared_bytes";

/// CTAs per cluster, on a function that uses more than one.
inline constexpr llvm::StringLiteral kNumCtasAttr = "tgpu.num_ctas";

/// The layout in a tile's encoding. The tile must have one.
LinearLayout layoutOf(mlir::RankedTensorType type);
inline LinearLayout layoutOf(mlir::Value tile) {
  return layoutOf(mlir::cast<mlir::RankedTensorType>(tile.getType()));
}

bool hasLayout(mlir::Type type);

tgpu::LayoutAttr layoutAttr(mlir::MLIRContext* context, const LinearLayout& layout);
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const LinearLayout& layout);

/// The part of one CTA as a tile of its own (LinearLayout::partOfCta), if it is one.
std::optional<mlir::RankedTensorType> partOfCta(mlir::RankedTensorType type);

/// For tile.expand_dims, broadcast, permute, reshape, for tgpu.stretch and for convert_layout within a thread: the source register of
/// every result register. Nothing if the result's layout asks a thread for an element that it does not hold.
std::optional<llvm::SmallVector<int32_t>> shapeOpSources(mlir::Operation* op);

}  // namespace ligerdsl::compiler
