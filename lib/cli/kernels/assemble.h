// Runs ptxas on a kernel's PTX, for `compile --emit cubin | resources | sass`.
#pragma once

#include <optional>
#include <string>

#include "program/artifact.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::cli {

// Returns the result of `stage`. Throws Failure with the output of ptxas or cuobjdump, and the
// command to run it again.
// - cubin: the file's bytes.
// - resources: ptxas's report of registers and memory.
// - sass: the machine instructions, by cuobjdump.
std::string assemble(const std::string& ptx, const std::string& arch, const std::string& stage);

// Parses ptxas's report (`--emit resources`) on the artifact.
runtime::KernelResources reported_resources(const program::Artifact& artifact,
                                            const std::string& report);
// Runs ptxas on the artifact's PTX and parses its report. Returns nothing if ptxas is not in PATH.
std::optional<runtime::KernelResources> assembled_resources(const program::Artifact& artifact);

}  // namespace ligerdsl::cli
