#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_check(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("check",
                              "Compare operations with float64, with default settings and small "
                              "sizes; exit code 1 beyond the gates");
  const auto request = std::make_shared<CheckRequest>();
  line.offer(command->add_option("operations", request->operations, "Operations (`ligerdsl list`)"),
             {.kind = Offer::Kind::kernels});
  command->add_flag("--all", request->all, "Every operation of the library");
  line.on(command,
          [request](const Globals& globals) { return check_operations(globals, *request); });
}

}  // namespace ligerdsl::cli
