// Tensor maps: kernel parameters by which copies of whole tiles find those of a view.
#pragma once

#include <vector>

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "program/artifact.h"

namespace ligerdsl::compiler::nvptx {

/// Launch slots of an argument.
size_t slotsOf(mlir::Type type);

/// What tensor copies to a part of a slot, or from a buffer, need: one copy moves all rows of a swizzled panel.
program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part);
program::TensorMap tensorMapOf(tgpu::TensorStoreOp store);

/// What of a part of a slot, or of a tile that is stored, each CTA copies, in a cluster: its own rows or columns, or rows for all CTAs of what
/// all need.
struct CtaCopy {
  size_t rowDim, columnDim;  // of the tile's shape
  int64_t rows;              // of one copy
  bool ownRows = false, ownColumns = false, toAll = false;
};
CtaCopy ctaCopyOf(tgpu::RingFillOp fill, unsigned part);
CtaCopy ctaCopyOf(tgpu::TensorStoreOp store);

/// Those of all fills and stores of a kernel, each once, in the order of its parameters.
std::vector<program::TensorMap> tensorMapsOf(mlir::func::FuncOp kernel);

}  // namespace ligerdsl::compiler::nvptx
