// LIGERDSL_DUMP and LIGERDSL_OVERRIDE_DIR: look at every stage of a kernel, edit its PTX, run that.
#pragma once

#include <string>
#include <string_view>

#include "program/options.h"

namespace ligerdsl::runtime {

class Device;

// Writes <dump dir>/<kernel>-<key>.<stage> for every stage asked for that the target has; the folder is made if need
// be. A stage that fails, or a file that cannot be written, is a warning.
void dump_stages_of(Device& device, std::string_view program, const program::CompileOptions& options,
                    const std::string& kernel);

// Replaces `ptx` by the text of <override dir>/<kernel>.ptx where that file exists, and says whether it did.
bool override_ptx(const std::string& kernel, std::string& ptx);

}  // namespace ligerdsl::runtime
