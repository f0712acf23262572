// The tgpu dialect's C++ interface; TgpuOps.td describes every op.
#pragma once

#include "compiler/dialect/RingEnums.h.inc"
#include "compiler/dialect/TgpuDialect.h.inc"
#include "compiler/dialect/tile.h"
#include "mlir/IR/TensorEncoding.h"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/TgpuAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/TgpuTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/TgpuOps.h.inc"
