// Converts between the #tgpu.layout attribute and compiler/layout, and computes the register
// renamings of shape ops.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

/// Attribute of a function: bytes of shared memory, set by tgpu-allocate-shared.
inline constexpr llvm::StringLiteral kSharedBytesAttr = "tgpu.shared_bytes";

/// Attribute of a function: CTAs per cluster, if more than one.
inline constexpr llvm::StringLiteral kNumCtasAttr = "tgpu.num_ctas";

/// Returns the layout in a tile's encoding. The tile must have one.
LinearLayout layoutOf(mlir::RankedTensorType type);
inline LinearLayout layoutOf(mlir::Value tile) {
  return layoutOf(mlir::cast<mlir::RankedTensorType>(tile.getType()));
}

bool hasLayout(mlir::Type type);

tgpu::LayoutAttr layoutAttr(mlir::MLIRContext* context, const LinearLayout& layout);
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const LinearLayout& layout);

/// Returns the type of one CTA's part, or nothing if this part is not a tile
/// (LinearLayout::partOfCta).
std::optional<mlir::RankedTensorType> partOfCta(mlir::RankedTensorType type);

/// Returns the source register of every result register. The op is tile.expand_dims, broadcast,
/// permute or reshape, `tgpu.segment`, or a convert_layout within a thread. Returns nothing if a
/// thread does not hold an element that the result's layout needs.
std::optional<llvm::SmallVector<int32_t>> shapeOpSources(mlir::Operation* op);

}  // namespace ligerdsl::compiler
