// The layouts of a kernel as data, for `ligerdsl layout`.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"

namespace ligerdsl::compiler {

/// JSON: a list of {"shape": [16, 64], "register": [[0, 1], ...], "lane": ..., "warp": ..., "cta": ..., "tiles": [{"op":
/// "load_tile", "type": "f32", "file": "softmax.cpp", "line": 33}, ...]}, in the order in which the program meets them.
/// The basis vectors are those of compiler/layout/linear_layout.h. Tiles of one shape, whatever their types, share an
/// item where they share a layout.
std::string listLayouts(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler
