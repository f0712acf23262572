// Tile IR that a person edited, which replaces the imported program.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "program/options.h"

namespace ligerdsl::compiler {

/// Parses CompileOptions::tile. It must have the kernel of `imported` with equal name and
/// arguments, because launches pack these. Locations are lines of the text. Reports errors there
/// and then returns a null module.
mlir::OwningOpRef<mlir::ModuleOp> parseEditedTile(const program::CompileOptions& options,
                                                  mlir::ModuleOp imported);

}  // namespace ligerdsl::compiler
