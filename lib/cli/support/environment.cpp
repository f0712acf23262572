#include "lib/cli/support/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "program/gpu_arch.h"
#include "runtime/environment/options.h"

namespace ligerdsl::cli {

namespace {

namespace fs = std::filesystem;

// Returns the path of the compiler library. LIGERDSL_CLI_LIBDIR is the library folder, relative to
// the command's folder.
fs::path path_of_compiler() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path installed =
      (self.parent_path() / LIGERDSL_CLI_LIBDIR / "libligerdsl-compiler.so").lexically_normal();
  const fs::path built = (self.parent_path() / "../lib/libligerdsl-compiler.so").lexically_normal();
  return !fs::exists(installed) && fs::exists(built) ? built : installed;
}

}  // namespace

std::shared_ptr<runtime::CompilerLibrary> open_compiler() {
  const std::string& named = runtime::options().compiler;
  auto compiler =
      runtime::CompilerLibrary::open(named.empty() ? path_of_compiler().string() : named);
  runtime::CompileIsolation isolation = compiler->isolation();
  isolation.mode = runtime::options().compile.value_or(runtime::CompileMode::process);
  compiler->isolate(isolation);
  return compiler;
}

runtime::DeviceConfig device_config(const std::string& device) {
  runtime::DeviceConfig config;
  if (device == "cpu") {
    config.kind = runtime::DeviceKind::cpu;
  } else if (device == "cuda" || device.starts_with("cuda:")) {
    config.kind = runtime::DeviceKind::cuda;
    if (device != "cuda")
      config.ordinal =
          static_cast<int32_t>(parse_integer("--device: cuda:N", device.substr(5), 0, 1023));
  } else {
    throw Failure(kUsage, fmt::format("--device: expected cpu or cuda:N, got '{}'{}", device,
                                      did_you_mean(device, {"cpu", "cuda:0"})));
  }
  return config;
}

runtime::DeviceConfig device_config(const Globals& globals) {
  runtime::DeviceConfig config = device_config(globals.device);
  config.num_threads = globals.threads;
  config.compiler = open_compiler();
  return config;
}

lib::ContextOptions context_options() {
  return {.validate = runtime::options().validate,
          .deterministic = runtime::options().deterministic};
}

lib::ContextRef open_context(const Globals& globals) {
  const runtime::DeviceConfig config = device_config(globals);
  try {
    return std::make_shared<lib::Context>(config, context_options());
  } catch (const runtime::Error& error) {
    throw Failure(kNoDevice, error.what());
  }
}

runtime::DeviceConfig unused_cpu(const Globals& globals) {
  runtime::DeviceConfig config;
  config.kind = runtime::DeviceKind::cpu;
  config.num_threads = globals.threads;
  if (runtime::options().table.empty() && lib::shipped_tables().empty()) return config;
  try {
    config.compiler = open_compiler();
  } catch (const runtime::Error&) {  // callers that need the compiler report the error
  }
  return config;
}

Target target_of(const Globals& globals) {
  return globals.device == "cpu" ? lib::cpu_target() : open_context(globals)->machine();
}

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"cpu"};
  for (const program::GpuArch& arch : program::gpu_archs()) names.emplace_back(arch.name);
  return names;
}

program::CompileOptions options_for_target(const std::string& target) {
  program::CompileOptions options;
  options.target = program::Target::cpu;
  if (target == "cpu") return options;  // this host's CPU
  if (!program::find_gpu_arch(target)) {
    const std::vector<std::string> names = target_names();
    throw Failure(kUsage, fmt::format("--target: unknown target '{}'{}; expected one of {}", target,
                                      did_you_mean(target, names), fmt::join(names, ", ")));
  }
  options.target = program::Target::nvptx;
  options.arch = target;
  options.ptx_version = 90;  // upper limit; the compiler emits the lowest version that suffices
  options.launch_overlap = runtime::options().launch_overlap;
  return options;
}

}  // namespace ligerdsl::cli
