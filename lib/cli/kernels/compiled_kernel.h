// Recorded kernels as the compiler and, for a GPU, ptxas or the driver make them: for `compile` and `explain`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/cli/kernels/recording_context.h"
#include "lib/text/output.h"
#include "program/artifact.h"
#include "runtime/compile/compiler_library.h"

namespace ligerdsl::cli {

struct CompiledKernel {
  std::string name;
  program::CompileOptions options;
  program::Artifact artifact;
  std::optional<runtime::KernelResources> resources;  // none: a GPU that is not here, without ptxas
  std::vector<program::Remark> remarks;               // the compiler's, and those of the resources
};

// Throws what the compiler throws.
CompiledKernel compiled(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded);
// The same of a kernel that a device loaded.
CompiledKernel loaded(const RecordedKernel& recorded);

// A line each.
std::string text_of(const std::vector<program::Remark>& remarks);
Json json_of(const std::vector<program::Remark>& remarks);

}  // namespace ligerdsl::cli
