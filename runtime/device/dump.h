// LIGERDSL_DUMP: look at every stage of a kernel.
#pragma once

#include <string_view>

#include "program/options.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

class Device;
struct EditedStages;

// Writes the stages asked for that the target has to <dump dir>/<entry>-<key>/ (stage_files.h), each file at once, so
// that threads and processes may write the same one; the folders are made if need be. `kernel` is what was loaded; null
// where its compile failed: then what comes before the failure is written. What cannot be written is a warning.
void dump_stages_of(Device& device, std::string_view program, const program::CompileOptions& options,
                    const LoadedKernel* kernel, const EditedStages& edited);

}  // namespace ligerdsl::runtime
