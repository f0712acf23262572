// Tensor maps: kernel parameters by which copies of whole tiles find those of a view.
#pragma once

#include <vector>

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "program/artifact.h"

namespace ligerdsl::compiler::nvptx {

/// Launch slots of an argument.
size_t slotsOf(mlir::Type type);

/// What tensor copies to a part of a slot need: one copy brings all rows of a swizzled panel.
program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part);

/// Those of all fills of a kernel, each once, in the order of its parameters.
std::vector<program::TensorMap> tensorMapsOf(mlir::func::FuncOp kernel);

}  // namespace ligerdsl::compiler::nvptx
