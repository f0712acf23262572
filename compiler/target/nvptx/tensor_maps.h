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
/// rows of a panel, whose rows are as wide as the swizzle. Copies to a slot round f32 to tf32,
/// because only matmuls read the slot.
program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part);
program::TensorMap tensorMapOf(tgpu::TensorStoreOp store);

/// The portion of a tile that one CTA of a cluster loads to a ring slot, or stores from a buffer. A
/// CTA copies its own rows or columns. If all n CTAs need the whole tile (`toAll`), each CTA loads
/// 1/n of the rows and multicasts them to the cluster.
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
