#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_bench(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand(
      "bench", "Measure median, spread, bytes per second and fraction of a copy");
  const auto request = std::make_shared<BenchRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, false);
  add_inputs(line, command, &request->inputs);
  add_sets(line, command, &request->sets, &request->rows);
  command->add_flag("--list", request->list, "Only list the cases and the bytes that they move");
  command
      ->add_option("--axis", request->axes,
                   "NAME=VALUES: the kernel with each of them, H=1024:16384*2, N=100:500+100, "
                   "dtype=f32,bf16; with another --axis, each combination")
      ->allow_extra_args(false);
  line.offer(command->add_option(
                 "--vs", request->vs,
                 "The --json file of an earlier run on this device: prints ratios of medians; exit "
                 "code 1 if a case got slower, 5 if device, threads or driver differ"),
             {.kind = Offer::Kind::files});
  command
      ->add_option(
          "--tolerance", request->tolerance,
          "With --vs: percent by which a case may be slower; a larger change counts if the middle "
          "60 % of the times do not overlap, and above 1.5 times in any case")
      ->capture_default_str()
      ->check(number_from(0, 1000));
  line.offer(
      command->add_option(
          "--plot", request->plot,
          "Write a chart, FILE.svg or FILE.png: bars of fractions of a copy; over an --axis of "
          "numbers, lines"),
      {.kind = Offer::Kind::files});
  command->add_flag("--warm", request->warm, "Leave the caches warm between samples");
  command->add_option("--budget-ms", request->budget_ms, "Measured time per case, in ms")
      ->capture_default_str()
      ->check(number_from(0.001, 3.6e6));
  command
      ->add_option("--copy-bytes", request->copy_bytes,
                   "Size of the copy that is the ceiling, in bytes; default: 2 GiB on a GPU, 256 "
                   "MiB on a CPU")
      ->check(number_from(1, 1e12));
  line.on(command, [request](const Globals& globals) { return bench(globals, *request); });
}

}  // namespace ligerdsl::cli
