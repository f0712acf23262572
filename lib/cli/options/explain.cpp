#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_explain(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("explain",
                              "Explain a kernel: configuration and why, resources, "
                              "occupancy, bytes, predicted and measured time, remarks");
  const auto request = std::make_shared<ExplainRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, true);
  add_target(line, command, &request->target,
             "Explain for this target (cpu, sm_80, sm_90a, sm_100 ...), which need not be present; "
             "runs nothing");
  command->add_flag("--no-run", request->no_run, "Skip the measurement");
  line.on(command, [request](const Globals& globals) { return explain(globals, *request); });
}

}  // namespace ligerdsl::cli
