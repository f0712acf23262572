#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_layout(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand("layout",
                                              "Show which thread of a GPU holds which element of a "
                                              "kernel's tiles, as tables; needs no GPU");
  const auto request = std::make_shared<LayoutRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, true);
  add_target(line, command, &request->target,
             "Target: sm_80, sm_90a, sm_100 ...; default: the GPU of --device, or sm_90a");
  command->add_option("--tile", request->tile, "Show only tiles of this shape: 16x64");
  command
      ->add_option("--line", request->line,
                   "Show only tiles that this line of the kernel's source creates")
      ->transform(integer_from(1, 10000000));
  line.choice(
      command->add_option(
          "--by", request->by,
          "Kind of table: element (a line per row of the tile, with the thread of each vector) or "
          "thread (a line per thread, with the elements in its registers); default: element"),
      {"element", "thread"});
  command->add_flag("--whole", request->whole,
                    "Print whole tables, not only their upper left corners");
  add_variant(line, command, &request->variant);
  line.on(command, [request](const Globals& globals) { return layout(globals, *request); });
}

}  // namespace ligerdsl::cli
