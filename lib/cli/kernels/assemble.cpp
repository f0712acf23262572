#include "lib/cli/kernels/assemble.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <vector>

#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/examine.h"
#include "lib/text/output.h"
#include "runtime/environment/temporary_folder.h"
#include "runtime/kernel/resource_remarks.h"
#include "runtime/system/status.h"
#include "runtime/system/subprocess.h"

namespace ligerdsl::cli {

namespace {

// Runs a program of the CUDA toolkit and returns its output.
std::string run_tool(const std::vector<std::string>& command, const DeferredSignals& signals) {
  runtime::ProcessResult result;
  try {
    result = runtime::run_process(command, {.stop = signals.descriptor()});
  } catch (const runtime::Error& error) {
    throw Failure(kNothingFound, fmt::format("{}; the program is part of NVIDIA's CUDA toolkit: "
                                             "put the toolkit's bin folder in PATH",
                                             error.what()));
  }
  if (result.stopped) throw Failure(kInterrupted, "interrupted");
  if (!result.succeeded)
    throw Failure(kNothingFound, fmt::format("{}: {}\n{}", runtime::command_line(command),
                                             result.end, result.output));
  if (result.cut)
    throw Failure(kNothingFound,
                  fmt::format("{}: printed more than {}", runtime::command_line(command),
                              format_bytes(static_cast<double>(result.output.size()))));
  return result.output;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string assemble(const std::string& ptx, const std::string& arch, const std::string& stage) {
  const DeferredSignals signals;  // made before the folder, so that the folder is removed before a
                                  // signal ends the command
  const runtime::TemporaryFolder folder;
  const std::string input = folder.write("kernel.ptx", ptx),
                    output = folder.path() + "/kernel.cubin";
  // Except for `cubin`, compiles relocatable code (-c), as the driver's linker does. Without -c,
  // the code uses other registers and has another instruction order.
  std::vector<std::string> command = {"ptxas", "-v", "-arch=" + arch, input, "-o", output};
  if (stage != "cubin") command.insert(command.begin() + 2, "-c");
  const std::string log = run_tool(command, signals);
  if (stage == "resources") return log;
  if (stage == "sass") return run_tool({"cuobjdump", "--dump-sass", output}, signals);
  return read_file(output);
}

runtime::KernelResources reported_resources(const program::Artifact& artifact,
                                            const std::string& report) {
  const auto number = [&](const char* pattern) {
    std::smatch found;
    return std::regex_search(report, found, std::regex(pattern)) ? std::stoi(found[1]) : 0;
  };
  runtime::KernelResources resources{.registers = number("Used ([0-9]{1,6}) registers"),
                                     .spill_bytes = number("([0-9]{1,9}) bytes spill stores"),
                                     .shared_bytes = artifact.shared_bytes,
                                     .threads = artifact.threads,
                                     .cluster = artifact.cluster,
                                     .log = report};
  if (const program::GpuArch* arch = program::find_gpu_arch(artifact.arch);
      arch && resources.registers > 0)
    resources.ctas_per_sm = runtime::ctas_that_fit(*arch, resources.threads, resources.registers,
                                                   resources.shared_bytes);
  return resources;
}

std::optional<runtime::KernelResources> assembled_resources(const program::Artifact& artifact) {
  if (find_program("ptxas").empty()) return std::nullopt;
  return reported_resources(artifact, assemble(artifact.code, artifact.arch, "resources"));
}

}  // namespace ligerdsl::cli
