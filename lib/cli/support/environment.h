// Devices and the compiler, as the command's options name them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/src/context.h"
#include "lib/text/output.h"
#include "runtime/compile/compiler_library.h"

namespace ligerdsl::cli {

// LIGERDSL_COMPILER, else the library beside libligerdsl in the folder that the command was installed with. Throws
// Failure.
std::shared_ptr<runtime::CompilerLibrary> open_compiler();

// The device that --device names. Throws Failure with kUsage.
runtime::DeviceConfig device_config(const std::string& device);

// --device, --threads and the compiler.
runtime::DeviceConfig device_config(const Globals& globals);

// As the environment says.
lib::ContextOptions context_options();

// The context of --device. Throws Failure with kNoDevice or kUsage.
lib::ContextRef open_context(const Globals& globals);

// A CPU that plans are made for and nothing runs on; its compiler is opened where tables of tuned kernels name CPUs.
runtime::DeviceConfig unused_cpu(const Globals& globals);

// Of --device; only a GPU is opened for it.
Target target_of(const Globals& globals);

// What --target may be.
std::vector<std::string> target_names();

// "cpu", "sm_90a", ...: what to compile for without having the device.
program::CompileOptions options_for_target(const std::string& target);

}  // namespace ligerdsl::cli
