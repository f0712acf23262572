// Recorded kernels that are compiled, and for a GPU assembled by ptxas or the driver. `compile` and
// `explain` use them.
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
      resources;                         // none if the GPU is not present and ptxas is missing
  std::vector<program::Remark> remarks;  // the compiler's remarks, and remarks on the resources
};

// Compiles a kernel. Throws the compiler's errors.
CompiledKernel compiled(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded);
// Like compiled(), for a kernel that a device has loaded.
CompiledKernel loaded(const RecordedKernel& recorded);

// Returns one line per remark.
std::string text_of(const std::vector<program::Remark>& remarks);
Json json_of(const std::vector<program::Remark>& remarks);

}  // namespace ligerdsl::cli
