#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_check(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("check",
                              "Compare results of operations with float64, at default settings and "
                              "small sizes; exit code 1 if an error exceeds its gate");
  const auto request = std::make_shared<CheckRequest>();
  line.offer(command->add_option("operations", request->operations,
                                 "Names of operations (`ligerdsl list` prints them)"),
             {.kind = Offer::Kind::kernels});
  command->add_flag("--all", request->all, "Check every operation of the library");
  line.on(command,
          [request](const Globals& globals) { return check_operations(globals, *request); });
}

}  // namespace ligerdsl::cli
