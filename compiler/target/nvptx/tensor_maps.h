// Tensor maps: kernel parameters that describe a view to TMA copies.
#pragma once

#include <vector>

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "program/artifact.h"

namespace ligerdsl::compiler::nvptx {

/// Returns the number of launch slots of an argument.
size_t slotsOf(mlir::Type type);

/// Return the tensor map of TMA copies to a part of a slot, or from a buffer. One copy moves all
/// rows of a swizzled panel. Copies to a slot round f32 to tf32, because only matmuls read the
/// slot.
program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part);
program::TensorMap tensorMapOf(tgpu::TensorStoreOp store);

/// Share of a tile that each CTA of a cluster copies, to a part of a slot or from a buffer. A CTA
/// copies its own rows or columns. If all CTAs need the whole tile, each copies some rows to all.
struct CtaCopy {
  size_t rowDim, columnDim;  // dimensions of the tile's shape
  int64_t rows;              // rows per copy
  bool ownRows = false, ownColumns = false, toAll = false;
};
CtaCopy ctaCopyOf(tgpu::RingFillOp fill, unsigned part);
CtaCopy ctaCopyOf(tgpu::TensorStoreOp store);

/// Returns the distinct tensor maps of a kernel's fills and stores, in the order of its parameters.
std::vector<program::TensorMap> tensorMapsOf(mlir::func::FuncOp kernel);

}  // namespace ligerdsl::compiler::nvptx
