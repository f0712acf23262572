// tile IR -> PTX.
#pragma once

#include "compiler/compile.h"

namespace ligerdsl::compiler {

/// Runs the GPU pipeline on a module of simplified tile IR and fills the artifact (entry, PTX, threads, shared memory
/// ...). Stages for CompileOptions::emit: tgpu (layouts, shared memory and barriers in place), llvm, ptx.
mlir::LogicalResult compileForNvptx(mlir::ModuleOp module, const program::CompileOptions& options,
                                    program::Artifact& artifact, CompileTrace& trace);

/// Dialects and interfaces of this target beyond those of the tile IR.
void registerNvptxDialects(mlir::DialectRegistry& registry);

}  // namespace ligerdsl::compiler
