// Compiles tile IR to PTX for GPUs.
#pragma once

#include "compiler/compile.h"

namespace ligerdsl::compiler {

/// Compiles a module of simplified tile IR for a GPU and fills the artifact (entry, PTX, threads,
/// shared memory ...). CompileOptions::emit selects a stage to print: tgpu (IR with layouts, shared
/// memory and barriers), layouts, llvm or ptx.
mlir::LogicalResult compileForNvptx(mlir::ModuleOp module, const program::CompileOptions& options,
                                    program::Artifact& artifact, CompileTrace& trace);

/// Registers the dialects that this target needs in addition to those of the tile IR.
void registerNvptxDialects(mlir::DialectRegistry& registry);

}  // namespace ligerdsl::compiler
