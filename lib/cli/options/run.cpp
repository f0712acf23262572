#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_run(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand(
      "run", "Run a kernel once on .npy inputs, or on random numbers from a fixed seed");
  const auto request = std::make_shared<RunRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, true);
  add_inputs(line, command, &request->inputs);
  line.offer(command->add_option("--out-dir", request->output_dir,
                                 "Write every output to this folder, as name.npy"),
             {.kind = Offer::Kind::files});
  command->add_flag("--check", request->check,
                    "Compare every output with a float64 evaluation of the kernel; exit code 1 if "
                    "an error exceeds its gate");
  line.on(command, [request](const Globals& globals) { return run(globals, *request); });
}

}  // namespace ligerdsl::cli
