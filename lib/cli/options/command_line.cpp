#include "lib/cli/options/command_line.h"

#include <fmt/format.h>

#include "lib/abi/build_info.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/exit_codes.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::cli {

CommandLine::CommandLine()
    : app("Inspect, compile, run and measure fused training kernels", "ligerdsl") {
  app.require_subcommand(1);
  app.fallthrough();  // global options may follow the subcommand
  app.set_version_flag(
      "--version", fmt::format("ligerdsl {}.{}.{}, build {}", LIGERDSL_VERSION_MAJOR,
                               LIGERDSL_VERSION_MINOR, LIGERDSL_VERSION_PATCH, lib::build_info()));
  offer(app.add_option("--device", globals.device, "Device: cpu or cuda:N")
            ->capture_default_str()
            ->check(device_name()),
        {.words = {"cpu", "cuda:0"}});
  app.add_option("--threads", globals.threads,
                 "Number of worker threads of the CPU device; 0: one per core")
      ->transform(integer_from(0, 4096));
  offer(
      app.add_option("--json", globals.json, "Write the result as JSON to a file, or - for stdout"),
      {.kind = Offer::Kind::files});
  choice(app.add_option("--color", globals.color, "Colour the output: auto, always or never"),
         {"auto", "always", "never"});
  offer(app.add_option("--load", globals.load,
                       "Load a shared object with your own kernels (LIGERDSL_EXPORT_KERNELS); may "
                       "be repeated")
            ->allow_extra_args(false),
        {.kind = Offer::Kind::files});
  app.add_flag("-q,--quiet", globals.quiet, "Print results only");
  app.add_flag("-v,--verbose", globals.verbose, "Print more details");
  add_doctor(*this);
  add_list(*this);
  add_compile(*this);
  add_explain(*this);
  add_layout(*this);
  add_cache(*this);
  add_run(*this);
  add_check(*this);
  add_bench(*this);
  add_tune(*this);
  add_report(*this);
  add_table(*this);
  add_help(*this);
  add_complete(*this);
  add_generate(*this);
  refuse_empty_values(app);
  std::string codes = "Exit codes:\n";
  for (const auto& [code, meaning] : exit_codes())
    codes += fmt::format("  {:<4}{}\n", code, meaning);
  app.footer(codes);
}

CLI::Option* CommandLine::choice(CLI::Option* option, const std::vector<std::string>& words,
                                 const std::map<std::string, std::string>& renamed) {
  if (!renamed.empty()) option->transform(new_names(renamed));
  return offer(option->check(one_of(words)), {.words = words});
}

void add_doctor(CommandLine& line) {
  line.on(line.app.add_subcommand("doctor",
                                  "Check what works on this machine, and why the rest does not"),
          doctor);
}

void add_list(CommandLine& line) {
  line.on(line.app.add_subcommand("list", "List operations and kernels with their settings"), list);
}

}  // namespace ligerdsl::cli
