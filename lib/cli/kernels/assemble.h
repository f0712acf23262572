// What ptxas makes of a kernel's PTX: for `compile --emit cubin | resources | sass`.
#pragma once

#include <optional>
#include <string>

#include "program/artifact.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::cli {

// cubin: the file's bytes; resources: ptxas's report of registers and memory; sass: the machine instructions, through
// cuobjdump. Throws Failure with what the tool printed and the command that repeats it.
std::string assemble(const std::string& ptx, const std::string& arch, const std::string& stage);

// What ptxas's report (`--emit resources`) says of the artifact.
runtime::KernelResources reported_resources(const program::Artifact& artifact, const std::string& report);
// The same, or nothing where there is no ptxas in PATH.
std::optional<runtime::KernelResources> assembled_resources(const program::Artifact& artifact);

}  // namespace ligerdsl::cli
