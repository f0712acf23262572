// LIGERDSL_DUMP: writes the stages of a kernel to files.
#pragma once

#include <string_view>

#include "program/options.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

class Device;
struct EditedStages;

// Writes the requested stages that the target has to <dump dir>/<entry>-<key>/ (stage_files.h), and
// creates the folders. Each file is replaced atomically, so threads and processes may write the
// same one. `kernel` is the loaded kernel. It is null after a failed compile; the stages before the
// failure are then written. A failure to write is a warning.
void dump_stages_of(Device& device, std::string_view program,
                    const program::CompileOptions& options, const LoadedKernel* kernel,
                    const EditedStages& edited);

}  // namespace ligerdsl::runtime
