// Opens the devices and the compiler that the command's options name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/text/output.h"
#include "runtime/compile/compiler_library.h"

namespace ligerdsl::cli {

// Opens LIGERDSL_COMPILER, or the library installed with the command. Throws runtime::Error.
std::shared_ptr<runtime::CompilerLibrary> open_compiler();

// Returns the configuration of the device that --device names. Throws Failure (kUsage).
runtime::DeviceConfig device_config(const std::string& device);

// Opens the compiler. Returns the device configuration that --device and --threads give.
runtime::DeviceConfig device_config(const Globals& globals);

// Returns the context options that environment variables set.
lib::ContextOptions context_options();

// Opens the context of --device. Throws Failure (kNoDevice or kUsage), or runtime::Error if the
// compiler cannot be opened.
lib::ContextRef open_context(const Globals& globals);

// Returns the configuration of a CPU, for plans that never run. Opens the compiler only if tables
// of tuned kernels exist, because only the compiler knows the name of a CPU in tables.
runtime::DeviceConfig unused_cpu(const Globals& globals);

// Returns the target of --device. Opens the device only if it is a GPU.
Target target_of(const Globals& globals);

// Returns the names that --target accepts.
std::vector<std::string> target_names();

// Returns the compile options for "cpu", "sm_90a" ..., without the device.
program::CompileOptions options_for_target(const std::string& target);

}  // namespace ligerdsl::cli
