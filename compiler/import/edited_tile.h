// Hand-edited tile IR that replaces the imported program.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "program/options.h"

namespace ligerdsl::compiler {

/// Parses CompileOptions::tile. The text must contain only `imported`'s kernel, with the same name
/// and arguments, because launches pack these arguments. Locations are lines of the text. Reports
/// errors at these lines and then returns a null module.
mlir::OwningOpRef<mlir::ModuleOp> parseEditedTile(const program::CompileOptions& options,
                                                  mlir::ModuleOp imported);

}  // namespace ligerdsl::compiler
