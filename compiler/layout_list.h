// Lists the layouts of a kernel as JSON, for `ligerdsl layout`.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

/// Returns JSON: a list of {"shape": [16, 64], "register": [[0, 1], ...], "lane": ..., "warp": ...,
/// "cta": ..., "tiles": [{"op": "load_tile", "type": "f32", "file": "softmax.cpp", "line": 33},
/// ...]}, in program order. compiler/layout/linear_layout.h defines the basis vectors. Tiles with
/// the same shape and layout are in one item, whatever their element types.
std::string listLayouts(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler
