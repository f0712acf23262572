// Imports a Program to the tile dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::compiler {

/// Builds a module with one `func.func @<program.name>` (attribute tile.kernel) from a parsed
/// program. Facts of the options become view types (exact sizes, divisors, alignment) and argument
/// attributes. Locations are lines of the author's source. Throws CompileError for an op that the
/// importer does not handle.
mlir::OwningOpRef<mlir::ModuleOp> importProgram(const program::Program& program,
                                                const program::CompileOptions& options,
                                                mlir::MLIRContext& context);

}  // namespace ligerdsl::compiler
