#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_report(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand(
      "report",
      "Write a page about the trials of tune: charts and tables in one HTML file; needs no device");
  const auto request = std::make_shared<ReportRequest>();
  const Offer files{.kind = Offer::Kind::files};
  line.offer(command->add_option(
                 "stores", request->stores,
                 "Files of trials (tune --store), of any machine; default: tune's default"),
             files);
  line.offer(command->add_option("--kernel", request->kernels, "Only this kernel")
                 ->allow_extra_args(false),
             {.kind = Offer::Kind::kernels});
  line.offer(
      command->add_option("-o,--output", request->output, "The HTML file to write")->required(),
      files);
  line.on(command, [request](const Globals& globals) { return report(globals, *request); });
}

}  // namespace ligerdsl::cli
