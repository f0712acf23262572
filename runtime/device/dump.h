// LIGERDSL_DUMP: writes the stages of a kernel to files.
#pragma once

#include <string_view>

#include "program/options.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

class Device;
struct EditedStages;

// Writes the requested stages, if the target has them, to <dump dir>/<entry>-<key>/
// (stage_files.h), and creates the folders. Each file is replaced atomically, so threads and
// processes may write the same file. `kernel` is the loaded kernel, or null after a failed compile.
// The stages before the failure are then written. If a file cannot be written, a warning is logged.
void dump_stages_of(Device& device, std::string_view program,
                    const program::CompileOptions& options, const LoadedKernel* kernel,
                    const EditedStages& edited);

}  // namespace ligerdsl::runtime
