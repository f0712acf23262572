// Tile IR that a person edited, in place of what a program is imported as.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "program/options.h"

namespace ligerdsl::compiler {

/// Parses CompileOptions::tile, which must hold the kernel of `imported` with its name and arguments: launches pack those.
/// Locations are lines of the text. Problems are reported at them and give a null module.
mlir::OwningOpRef<mlir::ModuleOp> parseEditedTile(const program::CompileOptions& options, mlir::ModuleOp imported);

}  // namespace ligerdsl::compiler
