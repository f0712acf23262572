#include "lib/cli/assemble.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "lib/cli/deferred_signals.h"
#include "lib/cli/output.h"
#include "runtime/status.h"
#include "runtime/subprocess.h"
#include "runtime/temporary_folder.h"

namespace ligerdsl::cli {

namespace {

// What a tool of the CUDA toolkit printed.
std::string run_tool(const std::vector<std::string>& command, const DeferredSignals& signals) {
  runtime::ProcessResult result;
  try {
    result = runtime::run_process(command, {.stop = signals.descriptor()});
  } catch (const runtime::Error& error) {
    throw Failure(kNothingFound,
                  fmt::format("{}; it comes with NVIDIA's CUDA toolkit: put its bin folder in PATH", error.what()));
  }
  if (result.stopped) throw Failure(kInterrupted, "interrupted");
  if (!result.succeeded)
    throw Failure(kNothingFound, fmt::format("{}: {}\n{}", runtime::command_line(command), result.end, result.output));
  if (result.cut)
    throw Failure(kNothingFound, fmt::format("{}: printed more than {}", runtime::command_line(command),
                                             format_bytes(static_cast<double>(result.output.size()))));
  return result.output;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string assemble(const std::string& ptx, const std::string& arch, const std::string& stage) {
  const DeferredSignals signals;  // before the folder: a signal ends the command when the folder is gone
  const runtime::TemporaryFolder folder;
  const std::string input = folder.write("kernel.ptx", ptx), output = folder.path() + "/kernel.cubin";
  // What authors look at is what the driver's linker will make: relocatable code (-c), for which ptxas takes other
  // registers and another order than for a cubin of its own.
  std::vector<std::string> command = {"ptxas", "-v", "-arch=" + arch, input, "-o", output};
  if (stage != "cubin") command.insert(command.begin() + 2, "-c");
  const std::string log = run_tool(command, signals);
  if (stage == "resources") return log;
  if (stage == "sass") return run_tool({"cuobjdump", "--dump-sass", output}, signals);
  return read_file(output);
}

}  // namespace ligerdsl::cli
