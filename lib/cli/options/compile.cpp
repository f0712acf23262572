#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_compile(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("compile", "Print any compilation stage of a kernel; needs no GPU");
  const auto request = std::make_shared<CompileRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, true,
             ", or FILE.reproducer of a failed compile");
  line.offer(
      command->add_option(
          "--emit", request->stage,
          "Stage: config (the schedule, as settings), program, tile, tgpu, loops, llvm, ptx, asm, "
          "remarks (what the compiler could not do, and why), cubin, resources (both need ptxas) "
          "or sass (needs ptxas and cuobjdump); default: ptx for a GPU, asm for a CPU"),
      {.words = compile_stages()});
  add_target(line, command, &request->target,
             "Target: cpu, sm_80, sm_90a, sm_100 ...; default: the target of --device, or sm_90a "
             "for a GPU stage with --device cpu");
  add_variant(line, command, &request->variant, "GPU variant: ");
  line.offer(
      command->add_option("-o,--output", request->output, "Write to this file; default: stdout"),
      {.kind = Offer::Kind::files});
  line.on(command, [request](const Globals& globals) { return compile(globals, *request); });
}

}  // namespace ligerdsl::cli
