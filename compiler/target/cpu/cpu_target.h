// tile IR -> host object code.
#pragma once

#include "compiler/compile.h"
#include "compiler/compiler_api.h"

namespace ligerdsl::compiler {

/// Runs the CPU pipeline on a module of simplified tile IR and fills the artifact (entry, object, arena size).
/// Stages for CompileOptions::emit: loops, llvm, asm.
mlir::LogicalResult compileForCpu(mlir::ModuleOp module, const program::CompileOptions& options,
                                  program::Artifact& artifact, CompileTrace& trace);

/// Dialects and interfaces of this target beyond those of the tile IR.
void registerCpuDialects(mlir::DialectRegistry& registry);

/// LLVM's name and features of this host.
const std::string& hostCpuName();
const std::string& hostCpuFeatures();

/// A CPU artifact's object linked into this process. Throws CompileError with a reason.
ligerdsl_cpu_module* loadCpuObject(std::string_view object, const std::string& entryName, void** entry);
void unloadCpuObject(ligerdsl_cpu_module* module);

}  // namespace ligerdsl::compiler
