// Compiles tile IR to host object code.
#pragma once

#include "compiler/compile.h"
#include "compiler/compiler_api.h"

namespace ligerdsl::compiler {

/// Runs the CPU pipeline on a module of simplified tile IR and fills the artifact (architecture,
/// entry, object, arena size). Stages for CompileOptions::emit: loops, llvm, asm.
mlir::LogicalResult compileForCpu(mlir::ModuleOp module, const program::CompileOptions& options,
                                  program::Artifact& artifact, CompileTrace& trace);

/// Registers the dialects that this target needs in addition to those of the tile IR.
void registerCpuDialects(mlir::DialectRegistry& registry);

/// Return LLVM's name and features of the host CPU.
const std::string& hostCpuName();
const std::string& hostCpuFeatures();

/// Links the object of a CPU artifact into this process and sets `*entry` to the address of
/// `entryName`. Throws std::bad_alloc, or CompileError with a reason.
ligerdsl_cpu_module* loadCpuObject(std::string_view object, const std::string& entryName,
                                   void** entry);
void unloadCpuObject(ligerdsl_cpu_module* module);

}  // namespace ligerdsl::compiler
