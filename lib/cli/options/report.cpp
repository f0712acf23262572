#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_report(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand("report",
                                              "Write an HTML page with charts and tables of the "
                                              "trials of `ligerdsl tune`; needs no device");
  const auto request = std::make_shared<ReportRequest>();
  const Offer files{.kind = Offer::Kind::files};
  line.offer(
      command->add_option(
          "stores", request->stores,
          "Files of trials (tune --store), from any machine; default: the default store of tune"),
      files);
  line.offer(command
                 ->add_option("--kernel", request->kernels,
                              "Show only trials of this kernel; may be repeated")
                 ->allow_extra_args(false),
             {.kind = Offer::Kind::kernels});
  line.offer(command->add_option("-o,--output", request->output, "HTML file to write")->required(),
             files);
  line.on(command, [request](const Globals& globals) { return report(globals, *request); });
}

}  // namespace ligerdsl::cli
