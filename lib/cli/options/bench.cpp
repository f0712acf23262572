#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_bench(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand(
      "bench",
      "Measure kernels: median time, spread, bytes per second, and fraction of a copy's rate");
  const auto request = std::make_shared<BenchRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, false);
  add_inputs(line, command, &request->inputs);
  add_sets(line, command, &request->sets, &request->rows);
  command->add_flag("--list", request->list, "Only list the cases and the bytes that they move");
  command
      ->add_option(
          "--axis", request->axes,
          "Measure the kernel with each value of a setting: H=1024:16384*2, N=100:500+100, "
          "dtype=f32,bf16; several --axis: each combination of their values")
      ->allow_extra_args(false);
  line.offer(
      command->add_option(
          "--vs", request->vs,
          "Compare with an earlier run on this device (its --json file): prints ratios of medians; "
          "exit code 1 if a case got slower, 5 if device, driver, threads or --warm differ"),
      {.kind = Offer::Kind::files});
  command
      ->add_option(
          "--tolerance", request->tolerance,
          "With --vs: accepted slowdown of a case in percent; a larger one counts only if the "
          "middle 60 % of the times of both runs do not overlap, or if the ratio is above 1.5")
      ->capture_default_str()
      ->check(number_from(0, 1000));
  line.offer(
      command->add_option("--plot", request->plot,
                          "Write a chart to FILE.svg or FILE.png: one bar per case, its fraction "
                          "of a copy's rate; with a numeric --axis, lines over its values"),
      {.kind = Offer::Kind::files});
  command->add_flag("--warm", request->warm, "Leave the caches warm between samples");
  command
      ->add_option("--budget-ms", request->budget_ms, "Time to spend on measuring each case, in ms")
      ->capture_default_str()
      ->check(number_from(0.001, 3.6e6));
  command
      ->add_option(
          "--copy-bytes", request->copy_bytes,
          "Size in bytes of the copy whose rate is the reference; default: 2 GiB on a GPU, 256 "
          "MiB on a CPU")
      ->check(number_from(1, 1e12));
  line.on(command, [request](const Globals& globals) { return bench(globals, *request); });
}

}  // namespace ligerdsl::cli
