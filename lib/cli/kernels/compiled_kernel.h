// Recorded kernels after compilation, and on a GPU after assembly by ptxas or the driver. Used by
// `compile` and `explain`.
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
  std::optional<runtime::KernelResources>
      resources;                         // none without ptxas for a GPU that is not present
  std::vector<program::Remark> remarks;  // remarks of the compiler and of the resources
};

// Compiles a kernel. Throws the compiler's errors.
CompiledKernel compiled(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded);
// Returns the same data for a kernel that a device loaded.
CompiledKernel loaded(const RecordedKernel& recorded);

// Returns one line per remark.
std::string text_of(const std::vector<program::Remark>& remarks);
Json json_of(const std::vector<program::Remark>& remarks);

}  // namespace ligerdsl::cli
